// Updates times in the browser between two refreshes, by the collector's clock: the markup itself does not change.
const state = (window.indoubtClock ??= { offsetMs: 0, refreshedAtMs: Date.now(), timer: null });

const two = (number) => String(number).padStart(2, "0");

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

const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

// Dialogs stand outside of Streamlit's themed element: the page as a whole takes its theme, so that colours match there too.
function followTheme() {
  const app = document.querySelector(".stApp");
  const scheme = app ? getComputedStyle(app).colorScheme : "";
  if (scheme && document.documentElement.style.colorScheme !== scheme) document.documentElement.style.colorScheme = scheme;
}

function tick() {
  followTheme();
  const now = Date.now() + state.offsetMs;
  for (const element of document.querySelectorAll("[data-until]")) {
    const left = Number(element.dataset.until) - now;
    write(element, left > 0 ? countdown(left) : `passed ${duration(-left)} ago`);
    element.classList.toggle("passed", left <= 0);
    element.classList.toggle("short", left > 0 && left <= 20000);
  }
  for (const element of document.querySelectorAll("[data-since]")) {
    write(element, duration(now - Number(element.dataset.since)));
  }
  for (const element of document.querySelectorAll("[data-ago]")) {
    write(element, `${duration(now - Number(element.dataset.ago))} ago`);
  }
  for (const element of document.querySelectorAll("[data-bar-until]")) {
    const from = Number(element.dataset.barFrom);
    const until = Number(element.dataset.barUntil);
    const share = Math.min(1, Math.max(0, (until - now) / Math.max(1, until - from)));
    element.style.width = `${(share * 100).toFixed(1)}%`;
    element.dataset.level = share < 0.2 ? "low" : share < 0.5 ? "middle" : "high";
  }
  for (const element of document.querySelectorAll("[data-now-until]")) {
    const from = Number(element.dataset.nowFrom);
    const until = Number(element.dataset.nowUntil);
    const share = Math.min(1, Math.max(0, (now - from) / Math.max(1, until - from)));
    element.style.left = `${(share * 100).toFixed(2)}%`;
  }
  const age = Date.now() - state.refreshedAtMs;
  for (const element of document.querySelectorAll("[data-refreshed]")) {
    element.classList.toggle("stale", age > 5000);
    write(element, age > 5000 ? `no update for ${duration(age)}` : `live, ${(age / 1000).toFixed(1)} s ago`);
  }
}

export default function ({ data }) {
  if (data && data.nowMs) {
    state.offsetMs = data.nowMs - Date.now();
    state.refreshedAtMs = Date.now();
  }
  tick();
  clearInterval(state.timer);
  state.timer = setInterval(tick, 200);
}
