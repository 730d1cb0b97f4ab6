// What access.py asks in the page itself. Each answer is a list of what is wrong, as text.
({
  // Texts that cannot be told from what is behind them, and how many there are in all.
  contrast() {
    const parse = (text) => {
      const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
      return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
    };
    const over = ([r, g, b, a], [R, G, B]) =>
      [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) =>
      0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
    const ground = (node) => {
      const layers = [];
      for (let at = node; at; at = at.parentElement) {
        layers.push(parse(getComputedStyle(at).backgroundColor));
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
    };
    const isShown = (node) =>
      node.checkVisibility({ visibilityProperty: true }) &&
      !node.closest(":disabled, .unseen, .skip, script");
    const poor = [];
    let seen = 0;
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const parent = walker.currentNode.parentElement;
      const text = walker.currentNode.textContent.trim();
      if (!text || !isShown(parent)) continue;
      const style = getComputedStyle(parent);
      const behind = ground(parent);
      const lights = [light(over(parse(style.color), behind)), light(behind)].sort();
      const ratio = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
      const size = parseFloat(style.fontSize);
      const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      seen += 1;
      if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
    }
    return { poor, seen };
  },

  // Controls that a finger would miss; of a radio button or a tick its label is what is hit.
  small() {
    return [...document.querySelectorAll("button, nav a, input, select, .brand")]
      .filter((node) => node.checkVisibility({ visibilityProperty: true }))
      .map((node) => [node, node.matches("[type=radio], [type=checkbox]") ? node.labels[0] : node])
      .map(([node, hit]) => [node, hit.getBoundingClientRect()])
      .filter(([, box]) => box.width < 24 || box.height < 24)
      .map(([node, box]) => `${node.tagName} ${node.textContent.slice(0, 30)}: ${box.width} x ${box.height}`);
  },

  // How much wider the page is than the screen.
  overflow() {
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
  },

  // What has the focus: its kind, its words, and whether that can be seen.
  focused() {
    const at = document.activeElement;
    const style = getComputedStyle(at.matches(".bar input") ? at.nextSibling : at);
    const isSeen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    return [at.tagName, (at.textContent || at.value || "").trim().slice(0, 20), isSeen];
  },
})
