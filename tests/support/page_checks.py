"""Checks of pages, as JavaScript: the elements with text, and those that are hard to read."""

OWN_TEXTS = """
[...document.querySelectorAll("body *")].filter(one => one.checkVisibility()
  && [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()))
"""
CONTRAST = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => parts(colour).slice(0, 3).map(part => part / 255)
    .map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
  const ground = one => {
    const colour = getComputedStyle(one).backgroundColor;
    return parts(colour)[3] === 0 && one.parentElement ? ground(one.parentElement) : colour;
  };
  const ratio = one => {
    const both = [light(getComputedStyle(one).color), light(ground(one))].sort((a, b) => b - a);
    return (both[0] + .05) / (both[1] + .05);
  };
  return (%s).filter(one => ratio(one) < 4.5).map(one => one.outerHTML);
})()
"""
