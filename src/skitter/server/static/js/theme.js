/** Light, dark, or the system's choice. */

const NAME = "skitter.theme";
const ORDER = ["system", "light", "dark"];

export function theme() {
    const chosen = localStorage.getItem(NAME);
    return ORDER.includes(chosen) ? chosen : "system";
}

export function applyTheme(chosen = theme()) {
    if (chosen === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset.theme = chosen;
}

/** Switch to the next theme and return it. */
export function nextTheme() {
    const next = ORDER[(ORDER.indexOf(theme()) + 1) % ORDER.length];
    localStorage.setItem(NAME, next);
    applyTheme(next);
    return next;
}
