// Owns the choice of colours: light, dark, or what the system says. Runs before the page is drawn, so that it never
// flashes in the other colours. The choice stays in this browser.
(function () {
  "use strict";
  const KEY = "postroom-colours";
  const root = document.documentElement;
  root.classList.add("scripted");

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is switched off; then the choice lasts for a page
    }
  }

  function apply(choice) {
    if (choice === "light" || choice === "dark") root.dataset.theme = choice;
    else delete root.dataset.theme;
  }

  apply(stored());
  window.postroomColours = {
    choice: () => root.dataset.theme || "auto",
    choose(choice) {
      apply(choice);
      try {
        localStorage.setItem(KEY, choice);
      } catch {
        // see above
      }
    },
  };
})();
