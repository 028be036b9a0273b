// Makes the figures of a page answer. Everything drawn comes from Python (memmodel/live.py); this
// file reads controls, keeps the state in the page's address, and puts picture and words in place.
"use strict";
(function () {
  const script = document.currentScript.src;
  const FRAME = window.requestAnimationFrame.bind(window);
  const idle = window.requestIdleCallback?.bind(window) ?? ((call) => setTimeout(call, 200));
  const figures = [];

  // ---- the runtime: loaded once, when the page is idle or at the first touch of a control

  let draw = null; // memmodel.live.draw once Python runs
  let booting = null;

  function load(name) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = script.replace(/live\.js/, name); // keeps the version in the address
      element.onload = resolve;
      element.onerror = () => reject(new Error(`the file ${name} did not load`));
      document.head.append(element);
    });
  }

  function boot() {
    booting ??= Promise.all([load("runtime.js"), load("memmodel.js")])
      .then(() => {
        const { python, source } = globalThis.memmodelRuntime ?? {};
        if (!python) throw new Error("the file runtime.js is damaged");
        if (!source) throw new Error("the file memmodel.js is damaged");
        return python();
      })
      .then((python) => {
        draw = python.import("memmodel.live").draw;
        performance.mark("memmodel-python");
        for (const figure of figures) figure.root.dataset.live = "ready";
        // first what the reader has already asked for, then each figure once, unseen, so that its
        // modules are loaded before its first change
        for (const figure of figures) if (figure.behind()) figure.show();
        warm([...figures]);
      })
      .catch((error) => {
        console.warn(`Figures stay as they are: ${error.message}`);
        for (const figure of figures) figure.fail(error);
      });
    return booting;
  }

  function warm(rest) {
    const figure = rest.shift();
    if (!figure) {
      performance.mark("memmodel-warm");
      return;
    }
    figure.warm();
    if (!performance.getEntriesByName("memmodel-ready").length) performance.mark("memmodel-ready");
    idle(() => warm(rest));
  }

  function savesData() {
    return navigator.connection?.saveData || matchMedia("(prefers-reduced-data: reduce)").matches;
  }

  // ---- the address: #figure.knob=value&..., only what differs from the first picture

  function readAddress() {
    const found = new Map();
    for (const part of location.hash.slice(1).split("&")) {
      const [, key, knob, value] = /^([\w-]+)\.([\w-]+)=(.*)$/.exec(part) ?? [];
      if (!key) continue;
      try {
        if (!found.has(key)) found.set(key, {});
        found.get(key)[knob] = decodeURIComponent(value);
      } catch {
        // a torn percent sign: as if it were not there
      }
    }
    return found;
  }

  let writing = 0;

  function writeAddress() {
    clearTimeout(writing);
    writing = 0;
    const parts = figures.flatMap((figure) => figure.changed().map(([knob, value]) =>
      `${figure.key}.${knob}=${encodeURIComponent(value)}`));
    const ours = readAddress().size > 0;
    if (!parts.length && !ours) return; // the address of a heading stays
    const address = parts.length ? `#${parts.join("&")}` : location.pathname + location.search;
    if (address !== location.hash) history.replaceState(history.state, "", address);
  }

  // Browsers refuse addresses that change too often; a burst of changes writes once.
  function writeAddressSoon() {
    writing ||= setTimeout(writeAddress, 200);
  }

  // ---- one figure

  // What a click on a mark changes in its own figure: one knob, or several at once.
  function sets({ dataset }) {
    return dataset.sets ? JSON.parse(dataset.sets) : { [dataset.knob]: dataset.value };
  }

  class Figure {
    constructor(root) {
      this.root = root;
      this.key = root.dataset.key;
      this.fixed = JSON.parse(root.dataset.fixed);
      this.defaults = JSON.parse(root.dataset.defaults);
      this.links = JSON.parse(root.dataset.links ?? "{}"); // name -> key of figures to load into
      this.note = ""; // what the next sentence ends with
      this.state = { ...this.defaults };
      this.shown = JSON.stringify(this.state); // the state that the picture shows
      this.picture = root.querySelector(".mm-picture");
      this.form = root.querySelector(".mm-form");
      this.reset = root.querySelector(".mm-reset");
      this.waiting = false;
      this.form.querySelector("fieldset")?.removeAttribute("disabled");
      this.reset.disabled = false;
      this.form.addEventListener("input", (event) => this.input(event));
      this.form.addEventListener("submit", (event) => event.preventDefault());
      this.form.addEventListener("reset", (event) => {
        event.preventDefault();
        this.set(this.defaults);
      });
      root.addEventListener("click", (event) => this.click(event));
      root.addEventListener("keydown", (event) => this.keydown(event));
      for (const kind of ["pointerdown", "focusin"]) {
        root.addEventListener(kind, boot, { once: true });
      }
      for (const box of root.querySelectorAll(".mm-picture, .mm-rows")) this.scrolls(box);
      this.controls();
    }

    changed() {
      return Object.entries(this.state).filter(([knob, value]) => value !== this.defaults[knob]);
    }

    input({ target }) {
      const value = target.type === "checkbox" ? (target.checked ? "on" : "off") : target.value;
      this.set({ [target.name]: value });
    }

    click(event) {
      const step = event.target.closest("[data-step]");
      const mark = event.target.closest(".mm-mark");
      if (mark) this.press(mark);
      if (!step || step.getAttribute("aria-disabled") === "true") return;
      const select = step.parentNode.querySelector("select");
      const option = select.options[select.selectedIndex + Number(step.dataset.step)];
      if (option) this.set({ [select.name]: option.value });
    }

    keydown(event) {
      const mark = event.target.closest(".mm-mark");
      if (!mark || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault(); // the space bar would scroll
      if (!event.repeat) this.press(mark);
    }

    press(mark) {
      const { into, loads } = mark.dataset;
      const other = into && figures.find(({ key }) => key === this.links[into]);
      this.note = other ? ` “${other.root.querySelector(".mm-name").textContent}” shows it.` : "";
      this.set(sets(mark));
      other?.set(JSON.parse(loads));
    }

    set(change) {
      if (this.failed()) return; // its picture stays, and so does what its controls say
      this.state = { ...this.state, ...change };
      this.controls();
      writeAddressSoon();
      if (!draw) {
        this.root.dataset.live ??= "waiting";
        boot();
      }
      this.refresh();
    }

    failed() {
      return this.root.dataset.live === "failed";
    }

    behind() {
      return JSON.stringify(this.state) !== this.shown;
    }

    // Drawn at most once a frame, and then the last state; before the runtime is there, when it is.
    refresh() {
      if (!draw || this.waiting) return;
      this.waiting = true;
      FRAME(() => {
        this.waiting = false;
        if (this.behind()) this.show();
      });
    }

    ask() {
      const { root, fixed, state } = this;
      const [figure, links] = [root.dataset.figure, Object.keys(this.links)];
      return JSON.parse(draw(JSON.stringify({ figure, uid: root.id, fixed, state, links })));
    }

    warm() {
      if (this.root.dataset.drawn !== undefined) return;
      try {
        this.ask();
        this.root.dataset.drawn = 0;
      } catch (error) {
        this.cannot(error);
      }
    }

    show() {
      let answer;
      try {
        answer = this.ask();
      } catch (error) {
        this.cannot(error);
        return;
      }
      const asked = JSON.stringify(this.state);
      this.state = answer.state; // without what an address had in it that the figure does not know
      this.shown = JSON.stringify(this.state);
      this.root.dataset.drawn = Number(this.root.dataset.drawn ?? 0) + 1;
      this.controls();
      this.put(answer);
      if (asked !== this.shown) writeAddressSoon();
    }

    cannot(error) {
      console.warn(error.message);
      this.fail(new Error("this state could not be drawn"));
    }

    put(answer) {
      const focus = document.activeElement;
      const mark = this.picture.contains(focus) ? focus.dataset : null;
      this.picture.innerHTML = answer.svg;
      if (mark?.mark !== undefined) this.focus(mark);
      this.root.querySelector(".mm-rows").innerHTML = answer.table;
      this.root.querySelector(".mm-status").textContent = answer.status + this.note;
      this.note = "";
      this.root.classList.toggle("mm-refused", answer.problem !== "");
    }

    // The picture is new, but the reader is still at the same mark.
    focus({ mark, knob, value }) {
      const marks = [...this.picture.querySelectorAll(".mm-mark")];
      const same = marks.find((one) => one.dataset.mark === mark)
        ?? marks.find((one) => one.dataset.knob === knob && one.dataset.value === value);
      (same ?? this.picture).focus({ preventScroll: true });
    }

    // Controls say what the state is, whoever changed it: a control, a mark or the address.
    controls() {
      for (const element of this.form.elements) {
        const value = this.state[element.name];
        if (value === undefined) continue;
        if (element.type === "checkbox") element.checked = value === "on";
        else if (element.type === "radio") element.checked = element.value === value;
        else if ([...element.options].some((option) => option.value === value)) element.value = value;
      }
      for (const button of this.form.querySelectorAll("[data-step]")) {
        const select = button.parentNode.querySelector("select");
        const at = select.selectedIndex + Number(button.dataset.step);
        button.setAttribute("aria-disabled", String(!select.options[at]));
      }
      this.reset.setAttribute("aria-disabled", String(!this.changed().length));
    }

    // A box is a stop of the Tab key only while there is something to scroll in it, and its edge
    // fades where there is more.
    scrolls(box) {
      const look = () => {
        const hidden = box.scrollWidth - box.clientWidth;
        if (hidden > 1) box.tabIndex = 0;
        else box.removeAttribute("tabindex");
        box.classList.toggle("mm-before", box.scrollLeft > 1);
        box.classList.toggle("mm-after", hidden - box.scrollLeft > 1);
      };
      new ResizeObserver(look).observe(box);
      box.addEventListener("scroll", look, { passive: true });
    }

    fail(error) {
      if (this.failed()) return;
      this.root.dataset.live = "failed";
      this.form.querySelector("fieldset")?.setAttribute("disabled", "");
      this.reset.disabled = true;
      this.state = JSON.parse(this.shown);
      this.controls();
      const line = document.createElement("p");
      line.className = "mm-off";
      line.setAttribute("role", "status");
      const why = error.message.split("\n")[0].replace(/\.+$/, "");
      line.textContent = `The controls do not work here: ${why}. The `
        + "picture, its numbers and its table stay as they are.";
      this.form.after(line);
    }
  }

  // ---- hints: open on focus and under the pointer, closed by Escape

  function hints() {
    for (const hint of document.querySelectorAll(".mm-hint")) {
      const tip = hint.querySelector(".mm-tip");
      const open = () => {
        delete hint.dataset.closed;
        tip.style.left = "";
        const edge = document.documentElement.clientWidth - 8;
        const over = tip.getBoundingClientRect().right - edge;
        if (over > 0) tip.style.left = `${-over}px`;
      };
      hint.addEventListener("pointerenter", open);
      hint.addEventListener("focusin", open);
    }
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      for (const hint of document.querySelectorAll(".mm-hint")) hint.dataset.closed = "";
    });
  }

  // ---- predictions: a number from the reader, then the answer beside it

  function guesses() {
    for (const root of document.querySelectorAll(".mm-guess")) {
      const form = root.querySelector("form");
      const answer = Number(root.dataset.answer);
      form.hidden = false;
      root.classList.add("mm-asks");
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const entry = form.querySelector("input");
        const guess = readNumber(entry.value);
        const gap = root.querySelector(".mm-gap");
        if (guess === null) {
          gap.textContent = "A number, please.";
          return;
        }
        const shown = root.querySelector(".mm-answer p").textContent;
        gap.textContent = `You said ${entry.value.trim()}; it is ${shown} ${distance(guess, answer)}`;
        entry.readOnly = true;
        root.classList.add("mm-told");
      });
    }
  }

  // 1,200.5 and 8.65 and 8,65: a comma is a decimal sign where it cannot part thousands.
  function readNumber(text) {
    const bare = text.trim().replace(/[\s_]/g, "");
    const plain = /^\d+,(\d{1,2}|\d{4,})$/.test(bare) ? bare.replace(",", ".") : bare.replace(/,/g, "");
    return /^-?(\d+\.?\d*|\.\d+)(e-?\d+)?$/i.test(plain) ? Number(plain) : null;
  }

  function distance(guess, answer) {
    const ratio = guess / answer;
    if (ratio > 0.98 && ratio < 1.02) return "Right.";
    if (!(ratio > 0) || !Number.isFinite(ratio)) return "";
    const factor = ratio > 1 ? ratio : 1 / ratio;
    const digits = factor < 10 ? factor.toFixed(factor < 1.1 ? 2 : 1) : Math.round(factor).toLocaleString("en");
    return `Your guess is ${digits} times too ${ratio > 1 ? "high" : "low"}.`;
  }

  // ---- start

  function follow() {
    const address = readAddress();
    if (!figures.some((figure) => address.has(figure.key))) return [];
    return figures.filter((figure) => {
      if (figure.failed()) return false;
      const known = Object.entries(address.get(figure.key) ?? {}).filter(([knob]) => knob in figure.defaults);
      const before = JSON.stringify(figure.state);
      figure.state = { ...figure.defaults, ...Object.fromEntries(known) };
      figure.controls();
      return JSON.stringify(figure.state) !== before;
    });
  }

  for (const root of document.querySelectorAll(".mm-figure[data-figure]")) figures.push(new Figure(root));
  hints();
  guesses();
  if (!figures.length) return;
  const shared = follow();
  if (shared.length) {
    boot(); // an address with a state asks for another picture than the first
    const [entry] = performance.getEntriesByType("navigation");
    if (entry?.type === "navigate" && window.scrollY === 0) shared[0].root.scrollIntoView();
  } else if (!savesData()) {
    idle(boot, { timeout: 2000 });
  }
  window.addEventListener("hashchange", () => {
    for (const figure of follow()) figure.set({});
  });
  window.addEventListener("pagehide", () => {
    if (writing) writeAddress();
  });
})();
