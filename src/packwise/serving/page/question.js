// The question box: it grows with the text, and Enter submits it.

import { el } from "./dom.js";

/** `props` are the attributes of the box; `submit()` asks. */
export function questionBox(props, submit) {
  const box = el("textarea", {
    rows: 1, autocomplete: "off", maxlength: 8000, enterkeyhint: "send", ...props,
    oninput: () => grow(),
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      submit();
    },
  });
  function grow() {
    box.style.setProperty("height", "auto");
    box.style.setProperty("height", `${box.scrollHeight}px`);
  }
  return {
    box,
    set(text) {
      box.value = text;
      grow();
    },
  };
}
