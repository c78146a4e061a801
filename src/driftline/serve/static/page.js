// What a page can do only with a script: copy, say early that a file is too large, and follow a job. All else is HTML.
"use strict";

function addCopyButtons() {
  for (const block of document.querySelectorAll(".bug pre, .bug .command, .job .command")) {
    const frame = document.createElement("div");
    frame.className = "copied";
    block.replaceWith(frame);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = "Copy";
    frame.append(block, button);
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(block);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
}

addCopyButtons();
