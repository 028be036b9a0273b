// Questions that a page answers about itself; each returns what is wrong as a list of strings,
// so that a failure names the elements. Loaded into the page by accessibility.py.
"use strict";
window.probes = (() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const style = (e) => getComputedStyle(e);

  function called(e) {
    const classes = e.getAttribute("class")?.trim().split(/\s+/).join(".");
    const label = e.getAttribute("aria-label");
    return e.tagName.toLowerCase() + (e.id ? `#${e.id}` : "") + (classes ? `.${classes}` : "")
      + (label ? ` "${label}"` : "");
  }

  function shown(e) {
    return e.getClientRects().length > 0
      && e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  }

  const FOCUSABLE = ["a[href]", "button", "input", "select", "textarea", "summary", "[tabindex]"]
    .map((kind) => `${kind}:not([disabled]):not([tabindex="-1"])`).join(", ");

  // Where the Tab key stops; a group of radio buttons is one stop, seen by its label.
  function stops(root) {
    return all(FOCUSABLE, root).filter((e) => shown(e.type === "radio" ? e.closest("label") : e)
      && !e.closest("fieldset[disabled]") && !(e.type === "radio" && !e.checked));
  }

  async function axe({ only, explained }) {
    const found = await window.axe.run(document, {
      resultTypes: ["violations", "incomplete"], runOnly: only,
    });
    const isExplained = (rule, node) => explained.some(([name, where]) =>
      name === rule.id && document.querySelector(node.target[0])?.closest(where));
    const lines = (list) => list.flatMap((rule) => rule.nodes
      .filter((node) => !isExplained(rule, node))
      .map((node) => `${rule.id}: ${node.target.join(" ")} ${node.failureSummary ?? ""}`));
    return [lines(found.violations), lines(found.incomplete)];
  }

  function unnamedPictures() {
    const named = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")
      || e.getAttribute("alt") !== null || e.querySelector(":scope > title");
    const hidden = "[aria-hidden=true], [role=presentation], mjx-container";
    return all("svg, img").filter((e) => shown(e) && !named(e) && !e.closest(hidden)).map(called);
  }

  // Marks to click whose name is not what they show first: who speaks to a computer says that.
  function misnamedMarks() {
    return all(".mm-figure svg .mm-mark").filter((e) => {
      const first = e.querySelector("text")?.textContent.trim().toLowerCase() ?? "";
      return !e.getAttribute("aria-label")?.toLowerCase().includes(first);
    }).map(called);
  }

  function focusableInImages() {
    return all("[role=img]").flatMap((e) => all(FOCUSABLE, e)).map(called);
  }

  // Figures without a table; numbers at bars, and sizes anywhere in a picture, that its table does
  // not have. What is counted on the way to a drawn number may stand in the figure's words instead.
  function missingFromTables() {
    return all(".mm-figure").flatMap((figure) => {
      const table = figure.querySelector("details table");
      if (!table) return [`${called(figure)} has no table`];
      const cells = all("td, th", table).map((e) => e.textContent);
      const words = all("svg > desc, .mm-status", figure).map((e) => e.textContent).join(" ");
      const atBars = [];
      const sizes = [];
      for (const text of all(`svg text[id^="${figure.id}-value-"]`, figure)) {
        const bar = document.getElementById(text.id.replace("-value-", "-bar-"));
        if (bar) atBars.push(text.textContent.trim());
        else sizes.push(...text.textContent.match(/\d[\d.,]* [KMGT]iB/g) ?? []);
      }
      return [
        ...atBars.filter((number) => !cells.includes(number)),
        ...sizes.filter((size) => !cells.some((cell) => cell.includes(size)) && !words.includes(size)),
      ].map((number) => `${called(figure)}: ${number} is not in ${cells.join(" | ")}`);
    });
  }

  // Controls of figures that are smaller than a finger needs.
  function smallTargets(least) {
    return all(".mm-figure, .mm-guess").flatMap((figure) => stops(figure))
      .filter((e) => !e.matches("[role=region]"))
      .map((e) => [e, (e.matches("[type=radio], [type=checkbox]") ? e.closest("label") : e)])
      .map(([e, target]) => [e, target.getBoundingClientRect()])
      .filter(([, box]) => Math.min(box.width, box.height) < least - 0.1)
      .map(([e, box]) => `${called(e)}: ${box.width.toFixed(1)} by ${box.height.toFixed(1)}`);
  }

  // Texts of pictures that are shown smaller than `least` CSS pixels.
  function smallPrint(least) {
    return all(".mm-figure svg text").filter(shown)
      .map((e) => [e, parseFloat(style(e).fontSize) * e.getScreenCTM().a])
      .filter(([, size]) => size < least - 0.1)
      .map(([e, size]) => `${size.toFixed(1)} px: ${e.textContent}`);
  }

  // Marks whose colour in the browser is not that of their role.
  function wrongColours(palette) {
    const rgb = (hex) => `rgb(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(", ")})`;
    const faults = [];
    for (const e of all(".mm-figure svg [class]").filter(shown)) {
      for (const name of e.classList) {
        const property = { "f-": "fill", "s-": "stroke" }[name.slice(0, 2)];
        if (!property) continue;
        const wanted = palette[name.slice(2)];
        const is = style(e)[property];
        if (!wanted || is !== rgb(wanted)) faults.push(`${called(e)}: ${is} instead of ${wanted}`);
      }
    }
    return faults;
  }

  // Boxes that scroll sideways and cannot be reached with the keyboard or have no name.
  function badScrollBoxes() {
    const named = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby")
      || e.matches("mjx-container"); // a formula is read out itself
    const scrolls = (e) => ["auto", "scroll"].includes(style(e).overflowX)
      && e.scrollWidth > e.clientWidth + 1 && shown(e);
    return all("body *").filter(scrolls).flatMap((e) => {
      const faults = [];
      if (e.tabIndex < 0 && !stops(e).length) faults.push(`${called(e)} cannot be focused`);
      if (!named(e)) faults.push(`${called(e)} has no name`);
      return faults;
    });
  }

  // Elements with a transition, an animation or a smooth scroll.
  function moving() {
    const lasts = (times) => times.split(",").some((time) => parseFloat(time) > 0.02);
    return [document.documentElement, ...all("body *")].filter((e) => {
      const { transitionDuration, animationName, animationDuration, scrollBehavior } = style(e);
      return scrollBehavior === "smooth" || lasts(transitionDuration)
        || (animationName !== "none" && lasts(animationDuration));
    }).filter(shown).map(called);
  }

  // Numbers the stops of a figure, puts the focus in front of the first, and counts them.
  function beforeFirstStop(selector) {
    const figure = document.querySelector(selector);
    const found = stops(figure);
    found.forEach((e, at) => (e.dataset.stop = at));
    figure.tabIndex = -1;
    figure.focus();
    return found.map(called);
  }

  // The number of the stop that has the focus, and whether a ring of 2 px shows it.
  function focused() {
    const e = document.activeElement;
    const around = [e, e.closest("label"), e.nextElementSibling, e.parentElement,
      e.querySelector(".mm-target")].filter(Boolean);
    const ring = around.some((one) => {
      const { outlineStyle, outlineWidth, stroke, strokeWidth } = style(one);
      return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 2)
        || (one.matches(".mm-target") && stroke !== "none" && parseFloat(strokeWidth) >= 2);
    });
    return [Number(e.dataset.stop ?? -1), ring ? "" : `no ring around ${called(e)}`];
  }

  // Collects what live regions say from now on, in `window.said`.
  let listeners = [];
  function listen() {
    window.said = [];
    for (const listener of listeners) listener.disconnect();
    listeners = all("[role=status], [role=alert], [aria-live]").map((e) => {
      const say = () => window.said.push([e.textContent, e.getAttribute("aria-live")]);
      const listener = new MutationObserver(say);
      listener.observe(e, { childList: true, characterData: true, subtree: true });
      return listener;
    });
  }

  const figures = () => all(".mm-figure[data-figure]").map((e) => `#${e.id}`);

  return {
    axe, unnamedPictures, misnamedMarks, focusableInImages, missingFromTables, smallTargets, smallPrint,
    wrongColours, badScrollBoxes, moving, beforeFirstStop, focused, listen, figures,
  };
})();
