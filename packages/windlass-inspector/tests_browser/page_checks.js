// What is wrong with a page that a browser shows, as sentences: WCAG 2.2, as far as it is measured.
// Each check is a function that changes nothing, but where it says so.
() => {
  const SMALLEST = 24; // pixels of a target, 2.5.8
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const text = (element) => element.textContent.replace(/\s+/g, " ").trim();
  const named = (element) => {
    const name = element.tagName.toLowerCase() + (element.id ? `#${element.id}` : "");
    const kind = element.getAttribute("class");
    return `<${name}${kind ? ` class="${kind}"` : ""}> "${text(element).slice(0, 40)}"`;
  };
  const isSeen = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0 && element.checkVisibility({ visibilityProperty: true });
  };
  const isForReaders = (element) => element.closest(".hidden, .matrix-row, .skip:not(:focus)");

  // Colours as [red, green, blue, alpha], and what is seen where one lies over another.
  const colour = (said) => {
    const [red = 0, green = 0, blue = 0, alpha = 1] = (said.match(/[\d.]+/g) ?? []).map(Number);
    return [red, green, blue, said === "transparent" ? 0 : alpha];
  };
  const over = ([red, green, blue, alpha], below) =>
    [red, green, blue].map((part, at) => part * alpha + below[at] * (1 - alpha)).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(colour(getComputedStyle(each).backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = (parts) => {
    const [red, green, blue] = parts.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [less, more] = [light(one), light(other)].sort((a, b) => a - b);
    return (more + 0.05) / (less + 0.05);
  };
  const stands = (said, element) => {
    const below = behind(element);
    return contrast(over(colour(said), below), below);
  };

  function* contrasts() {
    const told = new Set();
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const element = walk.currentNode.parentElement;
      if (!walk.currentNode.data.trim() || !isSeen(element) || isForReaders(element)) {
        continue;
      }
      const style = getComputedStyle(element);
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const found = stands(element instanceof SVGElement ? style.fill : style.color, element);
      if (found < (isLarge ? 3 : 4.5) && !told.has(element)) {
        told.add(element);
        yield `${named(element)} has contrast ${found.toFixed(2)}`;
      }
    }
    for (const element of all("input, select, button").filter(isSeen)) {
      const style = getComputedStyle(element);
      const around = behind(element.parentElement);
      const edges = [style.borderTopColor, style.backgroundColor].map((said) =>
        contrast(over(colour(said), around), around),
      );
      if (Math.max(...edges) < 3) {
        yield `${named(element)} has an edge of contrast ${Math.max(...edges).toFixed(2)}`;
      }
    }
    for (const element of all("polyline, .swatch line, rect.bar, .matrix-sheet path")) {
      const style = getComputedStyle(element);
      const said = style.fill === "none" ? style.stroke : style.fill;
      const found = stands(said, element.closest("figure, .matrix-sheet") ?? document.body);
      if (found < 3) {
        yield `${named(element)} is drawn with contrast ${found.toFixed(2)}`;
      }
    }
  }

  function* structure() {
    if (!document.documentElement.lang) {
      yield "the page has no language";
    }
    if (!/\S.* · Windlass$/.test(document.title)) {
      yield `the title is "${document.title}"`;
    }
    const headings = all("h1, h2, h3, h4, h5, h6");
    const levels = headings.map((each) => Number(each.tagName[1]));
    if (levels.filter((level) => level === 1).length !== 1 || levels[0] !== 1) {
      yield `the headings are of levels ${levels}`;
    }
    for (const [at, level] of levels.entries()) {
      if (at && level > levels[at - 1] + 1) {
        yield `${named(headings[at])} skips a level`;
      }
      if (!text(headings[at])) {
        yield `${named(headings[at])} says nothing`;
      }
    }
    if (all("main").length !== 1 || all("body > header").length !== 1) {
      yield "the page must have a main part and a header";
    }
    for (const element of all("body > *")) {
      if (!element.matches("main, header, footer, .skip, script")) {
        yield `${named(element)} is outside of the landmarks`;
      }
    }
    const labels = all("nav, [role=region], [role=search]").map(
      (each) => each.getAttribute("aria-label") ?? (each.matches("[role=search]") ? "search" : ""),
    );
    if (labels.some((label) => !label.trim())) {
      yield "a landmark has no name";
    }
    const ids = all("[id]").map((each) => each.id);
    for (const id of new Set(ids.filter((each, at) => ids.indexOf(each) !== at))) {
      yield `the id ${id} stands twice`;
    }
    for (const kind of ["aria-labelledby", "aria-describedby", "aria-activedescendant"]) {
      for (const element of all(`[${kind}]`)) {
        if (!document.getElementById(element.getAttribute(kind))) {
          yield `${named(element)} names nothing with ${kind}`;
        }
      }
    }
    for (const element of all("a[href^='#']")) {
      if (!document.getElementById(element.hash.slice(1))) {
        yield `${named(element)} leads nowhere`;
      }
    }
    for (const table of all("table")) {
      const heads = all("th", table);
      if (!heads.length || heads.some((each) => !each.scope || !text(each))) {
        yield `a table has heads without scope or words: ${named(table)}`;
      }
    }
    for (const image of all("img:not([alt]), svg:not([aria-hidden]):not([role=img])")) {
      yield `${named(image)} is neither described nor hidden`;
    }
  }

  function* fit() {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) {
      yield `the page is ${scrollWidth} pixels wide, the window ${clientWidth}`;
      const isInside = (each) => {
        const scrolls = each.parentElement?.closest(".wide, .matrix-scroll, pre");
        return !scrolls && each.getBoundingClientRect().right > clientWidth + 1;
      };
      yield* all("main *").filter(isInside).slice(0, 4).map((each) => `too wide: ${named(each)}`);
    }
    for (const element of all("body *").filter((each) => isSeen(each) && !isForReaders(each))) {
      const { overflowX, overflowY } = getComputedStyle(element);
      const isWider = element.scrollWidth > element.clientWidth + 1;
      const isHigher = element.scrollHeight > element.clientHeight + 1;
      const scrolls = (said) => ["auto", "scroll"].includes(said);
      const clips = (said) => ["hidden", "clip"].includes(said);
      if (!(element instanceof HTMLElement) || element.matches("input, select")) {
        continue;
      }
      if ((isWider && clips(overflowX)) || (isHigher && clips(overflowY))) {
        yield `${named(element)} cuts off what is in it`;
      }
      const isReached = element.tabIndex >= 0 || element.querySelector("a[href], [tabindex='0']");
      if (((isWider && scrolls(overflowX)) || (isHigher && scrolls(overflowY))) && !isReached) {
        yield `${named(element)} scrolls, but not with the keyboard`;
      }
    }
  }

  const controls = () => all("a[href], button, input, select, summary, [tabindex='0']");

  function* targets() {
    const boxes = controls()
      .filter((each) => isSeen(each) && !isForReaders(each) && !each.matches("pre, .wide"))
      .map((each) => [each, each.getBoundingClientRect()]);
    for (const [element, box] of boxes) {
      const around = element.parentElement;
      const isInText = element.matches("a") && text(around) !== text(element) &&
        around.matches("p, li, td, th, dd, span, strong, h2, h3");
      if (isInText || (box.width >= SMALLEST && box.height >= SMALLEST)) {
        continue;
      }
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      const isNear = ([other, its]) => {
        const across = Math.max(its.left - x, 0, x - its.right);
        const down = Math.max(its.top - y, 0, y - its.bottom);
        return other !== element && Math.hypot(across, down) < SMALLEST / 2;
      };
      if (boxes.some(isNear)) {
        const size = `${box.width.toFixed(0)} x ${box.height.toFixed(0)}`;
        yield `${named(element)} is ${size} pixels, with another beside it`;
      }
    }
  }

  // Moves the focus, which a key must have moved before: else browsers do not show it.
  function* focus() {
    for (const element of controls().filter(isSeen)) {
      element.focus({ preventScroll: true });
      const { outlineStyle, outlineWidth, outlineColor } = getComputedStyle(element);
      if (document.activeElement !== element) {
        yield `${named(element)} takes no focus`;
      } else if (outlineStyle === "none" || parseFloat(outlineWidth) < 2) {
        yield `${named(element)} does not show its focus`;
      } else if (stands(outlineColor, element.parentElement) < 3) {
        yield `${named(element)} shows its focus too faintly`;
      }
      const { left, top } = element.getBoundingClientRect();
      if (element.matches(".skip") && (left < 0 || top < 0)) {
        yield "the link to the content stays outside of the page";
      }
    }
  }

  function* printed() {
    for (const element of all("main, main *").filter((each) => each instanceof HTMLElement)) {
      const isIn = !element.closest(".hidden, .matrix-row, picture, option, nav, form, [hidden]");
      if (isIn && element.matches("p, pre, td, th, li, h1, h2, h3, dd") && !isSeen(element)) {
        const isForKeys = element.matches(".matrix-keys, .matrix-cell");
        if (text(element) && !isForKeys) {
          yield `${named(element)} is not printed`;
        }
      }
      const isClipped = (said, more) => said !== "visible" && more;
      const { overflowX, overflowY } = getComputedStyle(element);
      const isWider = element.scrollWidth > element.clientWidth + 1;
      const isHigher = element.scrollHeight > element.clientHeight + 1;
      if (isIn && isSeen(element) &&
          (isClipped(overflowX, isWider) || isClipped(overflowY, isHigher))) {
        yield `${named(element)} is cut off in print`;
      }
    }
    yield* contrasts();
  }

  const checks = { structure, fit, contrasts, targets, focus, printed };
  return (name) => [...checks[name]()].slice(0, 12);
}
