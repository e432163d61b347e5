// Keys on every page: / searches, j and k move between cards and rows, Enter opens one, c and a open the dialog of an order.
// No key gives an order: that takes a reason and a press in the dialog.
const keys = (window.indoubtKeys ??= { block: null, listens: false });
const SEARCH = "[data-testid='stMain'] [data-testid='stTextInput'] input";

function pressedKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable='true'], [role='dialog']")) return;
  if (document.querySelector("[role='dialog']")) return;
  const act = { "/": search, j: () => move(1), k: () => move(-1), Enter: openItem, c: () => order("commit"), a: () => order("abort") }[event.key];
  if (!act || !act()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}

function search() {
  if (focusSearch()) return true;
  // This page has nothing to search in: all of history has.
  const region = document.querySelector(".live-region")?.indoubt;
  region?.go("/history?show=search");
  const until = Date.now() + 5000;
  const waiting = setInterval(() => (focusSearch() || Date.now() > until) && clearInterval(waiting), 100);
  return Boolean(region);
}

function focusSearch() {
  const field = document.querySelector(SEARCH);
  field?.focus();
  field?.select();
  return Boolean(field);
}

const items = () => [...document.querySelectorAll("[data-item]")];
const focusedItem = () => document.activeElement?.closest("[data-item]");
const blockOf = (item) => item.closest("[data-block]")?.dataset.block;

// A dialog takes the focus away: the card that had it is where the next key goes on.
function currentItem() {
  return focusedItem() ?? items().find((item) => keys.block !== null && blockOf(item) === keys.block);
}

function focusItem(item) {
  keys.block = blockOf(item) ?? null;
  item.focus();
  item.scrollIntoView({ block: "nearest" });
  return true;
}

function move(by) {
  const all = items();
  const place = all.indexOf(currentItem());
  const next = place < 0 ? 0 : Math.min(all.length - 1, Math.max(0, place + by));
  return all.length > 0 && focusItem(all[next]);
}

function openItem() {
  const item = document.activeElement;
  const link = item?.matches("[data-item]") ? item.querySelector("[data-opens]") : null;
  link?.click();
  return Boolean(link);
}

function order(action) {
  const item = currentItem() ?? (items().length === 1 ? items()[0] : null);
  if (!item) return move(0);
  const button = item.querySelector(`[data-order='${action}']`);
  if (button && !button.disabled) {
    focusItem(item);
    button.click();
  }
  return true;
}

if (!keys.listens) {
  keys.listens = true;
  window.addEventListener("keydown", pressedKey, true);
}
