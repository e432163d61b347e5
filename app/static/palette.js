// The search over everything: / or Ctrl-K opens it over any page. What it lists comes from app/palette.py; an action opens its dialog.
const HISTORY_AFTER = 3;

function openPalette() {
  if (document.querySelector("dialog.palette")) return true;
  new Palette();
  return true;
}

class Palette {
  constructor() {
    this.dialog = document.createElement("dialog");
    this.dialog.className = "palette";
    this.dialog.setAttribute("aria-label", "Search everything");
    this.dialog.innerHTML = `<input type="text" role="combobox" aria-label="Search everything" aria-controls="palette-found" aria-expanded="true"
      aria-autocomplete="list" autocomplete="off" spellcheck="false" placeholder="Transaction, application, id, topic, page, or what to do">
      <ul id="palette-found" role="listbox" aria-label="What fits"></ul><p role="status"></p>`;
    [this.field, this.list, this.status] = this.dialog.children;
    this.asked = this.shown = null;
    this.field.addEventListener("input", () => this.ask());
    this.field.addEventListener("keydown", (event) => this.pressed(event));
    this.list.addEventListener("click", (event) => this.choose(event.target.closest("li")));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
    this.dialog.addEventListener("close", () => this.dialog.remove());
    document.body.append(this.dialog);
    this.dialog.showModal();
    this.field.focus();
    this.ask();
  }

  // One question at a time: what is typed meanwhile is asked next.
  async ask() {
    if (this.asked !== null) return;
    const words = (this.asked = this.field.value.trim());
    const found = await this.fetch(words, "");
    this.asked = null;
    if (!this.dialog.isConnected) return;
    if (words !== this.field.value.trim()) return void this.ask();
    if (!found) return;
    this.shown = words;
    this.list.replaceChildren();
    this.add(found);
    if (words.length >= HISTORY_AFTER) this.addHistory(words);
  }

  async addHistory(words) {
    const found = await this.fetch(words, "&history=1");
    if (found && this.dialog.isConnected && this.shown === words && words === this.field.value.trim()) this.add(found);
  }

  async fetch(words, more) {
    try {
      const answer = await fetch(`find?words=${encodeURIComponent(words)}&cluster=${encodeURIComponent(clock.cluster ?? "")}${more}`, { cache: "no-store" });
      const said = await answer.json();
      if (answer.ok) return said.found;
      this.status.textContent = `✖ ${said.error}`;
    } catch {
      this.status.textContent = "✖ The app does not answer.";
    }
    return null;
  }

  add(found) {
    const before = new Set([...this.list.children].map((item) => item.dataset.click));
    for (const { kind, text, more, click } of found) {
      if (before.has(click)) continue;
      before.add(click);
      const item = document.createElement("li");
      item.id = `palette-${this.list.childElementCount}`;
      item.setAttribute("role", "option");
      item.dataset.click = click;
      for (const [name, said] of [["text", text], ["more", more], ["kind", kind]]) {
        const part = document.createElement("span");
        part.className = name;
        part.textContent = said;
        item.append(part);
      }
      this.list.append(item);
    }
    this.status.textContent = this.list.childElementCount ? "" : "Nothing fits.";
    this.mark(this.marked()?.isConnected ? this.marked() : this.list.firstElementChild);
  }

  marked() {
    return this.list.querySelector("[aria-selected='true']");
  }

  mark(item) {
    this.marked()?.setAttribute("aria-selected", "false");
    item?.setAttribute("aria-selected", "true");
    item?.scrollIntoView({ block: "nearest" });
    if (item) this.field.setAttribute("aria-activedescendant", item.id);
    else this.field.removeAttribute("aria-activedescendant");
  }

  pressed(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (step) this.mark(this.marked()?.[step] ?? this.marked());
    else if (event.key === "Enter") this.chooseSoon();
    else return;
    event.preventDefault();
  }

  // Who types and presses Enter at once means what fits these words, not what is still listed.
  async chooseSoon() {
    const until = Date.now() + 4000;
    while (this.shown !== this.field.value.trim() && this.dialog.isConnected && Date.now() < until)
      await new Promise((go) => setTimeout(go, 20));
    if (this.shown === this.field.value.trim()) this.choose(this.marked());
  }

  choose(item) {
    if (!item) return;
    this.dialog.close();
    document.querySelector(".live-region")?.indoubt?.report({ click: item.dataset.click, at: Date.now() });
  }
}
