/** A share of successes: a bar, a number, and a colour that means something. */

import { h } from "../dom.js";
import { NONE, percent } from "../format.js";

export function toneOf(share) {
  if (share === null || share === undefined) return null;
  return share >= 0.95 ? null : share >= 0.8 ? "warn" : "bad";
}

export function successBar(share) {
  if (share === null || share === undefined) return h("span", { class: "faint" }, NONE);
  return h("span", {}, h("span", { class: "bar", "data-tone": toneOf(share), "--share": share }), " ", percent(share));
}
