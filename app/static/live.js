// A live region: opens the app's WebSocket, puts each changed block in place, counts times, and reports what is clicked.
// Idiomorph (vendor/) stands before this text. One clock serves all regions of a page.
const clock = (window.indoubtClock ??= { offsetMs: 0, timer: null, zone: "", format: null });
const two = (number) => String(number).padStart(2, "0");
const STALE_MS = 6000;
const RETRY_MS = 1000;

function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function countdown(ms) {
  const s = Math.ceil(ms / 1000);
  if (s >= 3600) return `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))}:${two(s % 60)}`;
  return `${two(Math.floor(s / 60))}:${two(s % 60)}`;
}

// The reader's zone, which the app has checked; a browser that does not know it shows UTC, and says so.
function showTimesIn(zone) {
  if (clock.zone === zone) return;
  const parts = { hourCycle: "h23", timeZoneName: "short" };
  for (const name of ["month", "day", "hour", "minute", "second"]) parts[name] = "2-digit";
  const formatIn = (timeZone) => new Intl.DateTimeFormat("en-GB", { ...parts, year: "numeric", timeZone });
  clock.zone = zone;
  try {
    clock.format = formatIn(zone);
  } catch {
    clock.format = formatIn("UTC");
  }
}

function absolute(ms, withDate, withMs = false) {
  if (!clock.format) showTimesIn("UTC");
  const part = Object.fromEntries(clock.format.formatToParts(ms).map(({ type, value }) => [type, value]));
  const time = `${part.hour}:${part.minute}:${part.second}${withMs ? `.${String(ms % 1000).padStart(3, "0")}` : ""}`;
  return withDate ? `${part.year}-${part.month}-${part.day} ${time} ${part.timeZoneName}` : time;
}

// A link copied from the address bar shows its reader the same cluster and times. This is no step back for the browser, as a push would be.
function keepInAddress() {
  const { pathname, search, hash } = location;
  const there = new URLSearchParams(search);
  const lacks = Object.entries({ zone: clock.zone, cluster: clock.cluster }).filter(([name, value]) => value && !there.has(name));
  if (!lacks.length) return;
  const added = lacks.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  history.replaceState(history.state, "", `${pathname}${search ? `${search}&` : "?"}${added}${hash}`);
}

const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};
const number = (element, name) => Number(element.dataset[name]);
const each = (selector, body) => document.querySelectorAll(selector).forEach(body);

// Dialogs stand outside of Streamlit's themed element: the page as a whole takes its theme, so that colours match there too.
function followTheme() {
  const app = document.querySelector(".stApp");
  const scheme = app ? getComputedStyle(app).colorScheme : "";
  if (scheme && document.documentElement.style.colorScheme !== scheme) document.documentElement.style.colorScheme = scheme;
}

// Streamlit's header ends where the rest of the bar begins: what has no room there goes into its menu of more pages.
function makeRoomInBar() {
  const rest = document.querySelector(".st-key-topline");
  const width = rest ? `${Math.ceil(rest.getBoundingClientRect().width)}px` : "";
  const root = document.documentElement.style;
  if (width && root.getPropertyValue("--bar") !== width) root.setProperty("--bar", width);
}

// A menu of the bar is left by a press beside it, or Escape.
function closeMenus(event) {
  if (event.type === "keydown" && event.key !== "Escape") return;
  each(".menu[open]", (menu) => {
    if (event.type === "click" && menu.contains(event.target)) return;
    menu.open = false;
    if (event.type === "keydown") menu.querySelector("summary").focus();
  });
}

function tick() {
  followTheme();
  makeRoomInBar();
  keepInAddress();
  const now = Date.now() + clock.offsetMs;
  each("[data-until]", (element) => {
    const left = number(element, "until") - now;
    write(element, left > 0 ? countdown(left) : `passed ${duration(-left)} ago`);
    element.classList.toggle("passed", left <= 0);
    element.classList.toggle("short", left > 0 && left <= 20000);
  });
  each("[data-since]", (element) => {
    write(element, duration(now - number(element, "since")));
    element.title = absolute(number(element, "since"), true);
  });
  each("[data-ago]", (element) => {
    write(element, `${duration(now - number(element, "ago"))} ago`);
    element.title = absolute(number(element, "ago"), true);
  });
  each("[data-at]", (element) => {
    write(element, absolute(number(element, "at"), false));
    element.title = absolute(number(element, "at"), true);
  });
  each("[data-exact]", (element) => write(element, absolute(number(element, "exact"), true, true)));
  each("[data-bar-until]", (element) => {
    const from = number(element, "barFrom");
    const share = Math.min(1, Math.max(0, (number(element, "barUntil") - now) / Math.max(1, number(element, "barUntil") - from)));
    element.style.width = `${(share * 100).toFixed(1)}%`;
    element.dataset.level = share < 0.2 ? "low" : share < 0.5 ? "middle" : "high";
  });
  each("[data-now-until]", (element) => {
    const from = number(element, "nowFrom");
    const share = Math.min(1, Math.max(0, (now - from) / Math.max(1, number(element, "nowUntil") - from)));
    element.style.left = `${(share * 100).toFixed(2)}%`;
  });
  each(".live-region", (root) => root.indoubt?.showAge());
  keepFocusOnHead();
  // The keys of cards are named where there is one.
  each(".keys [data-of-items]", (element) => (element.hidden = !document.querySelector("[data-item]")));
  if (document.querySelector(".session-over, .live-region.old")) dismissConnectionError();
  showInTab(now);
}

// The table that is written in another order has new heads: the focus stays on the one that was pressed.
function keepFocusOnHead() {
  const pressed = clock.sortedBy;
  if (!pressed || pressed.isConnected) return;
  clock.sortedBy = null;
  const name = pressed.firstChild.textContent;
  const head = [...document.querySelectorAll("a.sort")].find((candidate) => candidate.firstChild.textContent === name);
  if (document.activeElement === document.body) head?.focus({ preventScroll: true });
}

// How many things need attention and the first deadline stand in the tab: title and favicon.
function showInTab(now) {
  const facts = document.querySelector("[data-tab-count]");
  if (!facts) return;
  const count = number(facts, "tabCount");
  const until = number(facts, "tabUntil");
  const left = until ? ` ${until > now ? countdown(until - now) : "passed"}` : "";
  const name = document.title.replace(/^\(\d+\) (passed |[\d:]+ )?/, "");
  const title = count ? `(${count})${left} ${name}` : name;
  if (document.title !== title) document.title = title;
  const icon = document.querySelector("link[rel~='icon']");
  const colour = count ? "%23d92d20" : "%231a7f4b";
  const digits = count > 9 ? "9+" : count || "";
  const dot = `data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><circle cx='8' cy='8' r='8' fill='${colour}'/>`
    + `<text x='8' y='12' font-family='sans-serif' font-size='${count > 9 ? 9 : 12}' font-weight='700' text-anchor='middle' fill='white'>${digits}</text></svg>`;
  if (icon && icon.getAttribute("href") !== dot) icon.setAttribute("href", dot);
  each("[data-nav-count]", (element) => {
    const link = [...document.querySelectorAll("[data-testid='stTopNavLink'], [data-testid='stSidebarNavLink']")]
      .find((candidate) => candidate.pathname.endsWith(`/${element.dataset.navPath}`));
    link?.setAttribute("data-count", element.dataset.navCount);
  });
}

// A socket that is refused does not say why. Asked over HTTP, the app or the proxy in front of it says that one must sign in.
async function checkSession(path) {
  if (document.querySelector(".session-over")) return;
  const answer = await fetch(path, { method: "HEAD", redirect: "manual", cache: "no-store" }).catch(() => null);
  if (answer?.status !== 401 && answer?.type !== "opaqueredirect") return;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = "Sign in again";
  const note = document.createElement("p");
  note.className = "session-over";
  note.setAttribute("role", "alert");
  note.append("Your session is over. The picture is old, and orders are off. ", link);
  if (!document.querySelector(".session-over")) document.body.append(note);
}

// Streamlit's dialog about its own socket says less, and lies over the last picture.
function dismissConnectionError() {
  const dialog = [...document.querySelectorAll("[role='dialog']")]
    .find((candidate) => candidate.querySelector("h2")?.textContent === "Connection error");
  dialog?.querySelector("button[aria-label='Close']")?.click();
}

// What a person has unfolded stays so: the server does not know of it.
const isOurs = (name, element) => !(name === "open" && element.tagName === "DETAILS");

class Region {
  constructor(parent) {
    this.root = document.createElement("div");
    this.root.className = "stHtml live-region";
    this.root.innerHTML = "<p class='region-lost' role='alert' hidden></p><p class='region-off' hidden></p><div class='region-blocks'></div>";
    [this.note, this.off, this.blocks] = this.root.children;
    this.root.indoubt = this;
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.receivedMs = 0;
    this.asOfMs = null;
    this.lost = "";
    parent.replaceChildren(this.root);
  }

  // The next visit reads these at its start: the reader's zone, and how many rows a page has.
  remember() {
    for (const [name, value] of Object.entries(this.data.remember ?? {}))
      if (value) document.cookie = `${name}=${encodeURIComponent(value)}; path=/; max-age=31536000; samesite=lax`;
  }

  show({ data, report }) {
    this.report = report;
    this.data = data;
    showTimesIn(data.zone);
    clock.cluster = data.cluster;
    this.remember();
    if (this.path !== data.path) this.open(data.path);
    this.root.querySelectorAll("[aria-busy]").forEach((element) => element.removeAttribute("aria-busy"));
    this.allow();
  }

  open(path) {
    this.path = path;
    this.socket?.close();
    const url = new URL(path, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = (this.socket = new WebSocket(url));
    socket.onmessage = (event) => this.received(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.lost = event.reason || "The app does not answer";
      this.showAge();
      checkSession(path);
      setTimeout(() => this.root.isConnected && this.socket === socket && this.open(path), RETRY_MS);
    };
  }

  received(message) {
    document.querySelector(".session-over")?.remove();
    clock.offsetMs = message.now_ms - Date.now();
    this.receivedMs = Date.now();
    this.asOfMs = message.as_of_ms;
    this.lost = message.lost;
    for (const [name, html] of Object.entries(message.blocks ?? {})) this.put(name, html);
    if (message.order) this.arrange(message.order);
    if (message.blocks || message.order) {
      this.allow();
      tick();
    }
    this.showAge();
  }

  block(name) {
    return [...this.blocks.children].find((child) => child.dataset.block === name);
  }

  put(name, html) {
    let block = this.block(name);
    if (!block) {
      block = document.createElement("div");
      block.dataset.block = name;
      this.blocks.append(block);
    }
    Idiomorph.morph(block, html, { morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: isOurs } });
  }

  arrange(order) {
    const wanted = new Set(order);
    [...this.blocks.children].forEach((child) => wanted.has(child.dataset.block) || child.remove());
    order.forEach((name, place) => {
      const block = this.block(name);
      if (block && this.blocks.children[place] !== block) this.moveTo(place, block);
    });
  }

  // A block that moves keeps the focus in it: moveBefore does, insertBefore does not.
  moveTo(place, block) {
    const focused = block.contains(document.activeElement) ? document.activeElement : null;
    const before = this.blocks.children[place] ?? null;
    if (this.blocks.moveBefore && block.isConnected) this.blocks.moveBefore(block, before);
    else this.blocks.insertBefore(block, before);
    if (focused && document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  // Orders are off for who may not give them, and while the picture is old.
  allow() {
    const old = this.isOld() ? "This picture is old: orders are off until the collector answers." : "";
    const { mayOrder, maySilence, whyNot } = this.data;
    let said = "";
    this.root.querySelectorAll("[data-order]").forEach((button) => {
      const may = button.dataset.order === "silence" ? maySilence : mayOrder;
      const why = old || (may ? "" : whyNot || "This needs an operator.");
      button.disabled = why !== "";
      if (why) button.title = why;
      else button.removeAttribute("title");
      if (!old) said ||= why;
    });
    // A finger finds no title: once above the buttons it is text. While the picture is old, the note says it.
    this.off.hidden = said === "";
    write(this.off, said);
  }

  isOld() {
    return this.lost !== "" || Date.now() - this.receivedMs > STALE_MS;
  }

  showAge() {
    const old = this.isOld();
    if (old !== this.root.classList.contains("old")) {
      this.root.classList.toggle("old", old);
      this.allow();
    }
    // One of a page's regions says it for all.
    const isFirst = document.querySelector("[data-testid='stMain'] .live-region:not(.st-key-topline *)") === this.root;
    this.note.hidden = !old || !isFirst || (this.receivedMs === 0 && this.lost === "");
    const shown = this.asOfMs ? `You see ${absolute(this.asOfMs, false)}, ${duration(Date.now() + clock.offsetMs - this.asOfMs)} ago. ` : "";
    write(this.note, `✖ ${this.lost || "No news comes from the app"}. ${shown}You cannot order now; this page reconnects by itself.`);
    this.root.querySelectorAll("[data-live]").forEach((element) => {
      write(element, old ? (this.asOfMs ? `as of ${absolute(this.asOfMs, false)}` : "no data yet") : "live");
      element.classList.toggle("stale", old);
    });
  }

  clicked(event) {
    const clicked = event.target.closest("[data-click]");
    if (!clicked || clicked.disabled) return;
    if (clicked.tagName === "A") {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
    }
    clicked.setAttribute("aria-busy", "true");
    this.report({ click: clicked.dataset.click, at: Date.now() });
  }

  close() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}

// A link in a table that Streamlit wrote changes the page in place too: followed by the browser, it would load the app anew.
function followLink(event) {
  const link = event.target.closest?.("a[data-click]");
  if (!link || link.closest(".live-region") || event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  const region = document.querySelector(".live-region")?.indoubt;
  if (!region) return;
  event.preventDefault();
  if (link.matches(".sort")) clock.sortedBy = link;
  region.report({ click: link.dataset.click, at: Date.now() });
}

// One crosshair for all plots of a page: they have one time axis. Each says the time and its value there.
function showCrosshair(event) {
  const over = event.target.closest?.(".area[data-values]");
  const box = over?.getBoundingClientRect();
  const share = over ? Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width)) : -1;
  if (share < 0 && !clock.crosshair) return;
  clock.crosshair = share >= 0;
  document.documentElement.style.setProperty("--cross", share);
  each(".area[data-values]", (area) => {
    const values = area.dataset.values.split("|");
    const at = number(area, "axisFrom") + share * (number(area, "axisUntil") - number(area, "axisFrom"));
    const says = share < 0 ? "" : `${absolute(at, false)} ${values[Math.floor(share * values.length)]}`;
    write(area.closest(".plot").querySelector(".at-cross"), says);
  });
}

export default function ({ parentElement, data, setTriggerValue }) {
  const region = (parentElement.indoubtRegion ??= new Region(parentElement));
  region.show({ data, report: (click) => setTriggerValue("clicked", click) });
  if (!clock.timer) {
    clock.timer = setInterval(tick, 250);
    document.addEventListener("click", followLink);
    document.addEventListener("pointermove", showCrosshair);
    document.addEventListener("click", closeMenus);
    document.addEventListener("keydown", closeMenus);
  }
  return () => {
    region.close();
    delete parentElement.indoubtRegion;
  };
}
