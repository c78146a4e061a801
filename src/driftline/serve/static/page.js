// What a page can do only with a script: copy, say early that a file is too large, and follow a job. All else is HTML.
"use strict";

function addCopyButtons() {
  for (const block of document.querySelectorAll(".bug:not(.job) pre, .command")) {
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

// Swap in what the stream shows, and keep the focus and what was unfolded where they were.
function replaceContent(region, html) {
  const unfolded = [...region.querySelectorAll("details")].map((one) => one.open);
  const focused = region.contains(document.activeElement) ? document.activeElement.textContent : null;
  const scrolled = [...region.querySelectorAll("pre.log")].map((one) => one.scrollTop);
  region.innerHTML = html; // made by the server's templates, which escape what they are given
  region.querySelectorAll("details").forEach((one, at) => { one.open = unfolded[at] ?? one.open; });
  region.querySelectorAll("pre.log").forEach((one, at) => { one.scrollTop = scrolled[at] ?? one.scrollHeight; });
  if (focused !== null) {
    [...region.querySelectorAll("button, a, summary")].find((one) => one.textContent === focused)?.focus();
  }
}

// While a button is held down, what the stream shows waits: a button that is replaced between press and release gets no
// click. A browser has few connections to one server: a page that nobody sees gives its own back.
function follow(region) {
  let held = false;
  let latest = null;
  const show = (html) => { if (held) latest = html; else replaceContent(region, html); };
  const release = () => {
    held = false;
    if (latest !== null) replaceContent(region, latest);
    latest = null;
  };
  region.addEventListener("pointerdown", () => { held = true; });
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release)); // after the click
  let stream = null;
  let over = false;
  const stop = () => { stream?.close(); stream = null; };
  const start = () => {
    if (stream || over || document.hidden) return;
    stream = new EventSource(region.dataset.stream);
    stream.addEventListener("message", (event) => show(event.data));
    stream.addEventListener("over", () => { over = true; stop(); });
  };
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else start(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
  start();
}

function refuseLargeFiles(input) {
  input.addEventListener("change", () => {
    const file = input.files[0];
    const tooLarge = file && file.size > Number(input.dataset.limit);
    input.setCustomValidity(tooLarge ? "This file is larger than the server takes." : "");
    input.reportValidity();
  });
}

addCopyButtons();
document.querySelectorAll("[data-stream]").forEach(follow);
document.querySelectorAll("input[data-limit]").forEach(refuseLargeFiles);
