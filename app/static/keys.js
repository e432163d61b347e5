// Keys on every page: / and Ctrl-K search, j and k move between cards and rows, Enter opens one, c and a open the dialog of an order.
// No key gives an order: that takes a reason and a press in the dialog.
const keys = (window.indoubtKeys ??= { block: null, listens: false });

function pressedKey(event) {
  const isSearch = (event.ctrlKey || event.metaKey) && event.key === "k";
  if (!isSearch && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (!isSearch && event.target.closest?.("input, textarea, select, [contenteditable='true']")) return;
  if (document.querySelector("[role='dialog'], dialog[open]")) return;
  const act = isSearch ? openPalette : { "/": openPalette, j: () => move(1), k: () => move(-1), Enter: openItem, c: () => order("commit"), a: () => order("abort") }[event.key];
  if (!act || !act()) return;
  event.preventDefault();
  event.stopImmediatePropagation();
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
  window.addEventListener("click", (event) => event.target.closest?.("[data-find]") && openPalette());
}
