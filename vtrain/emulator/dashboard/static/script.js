"use strict";
// Keeps a page up to date that is whole without this script.

const PAGE_PAUSE = 3000, LOG_PAUSE = 1000, LOG_SLOWEST = 5000, MOST_LINES = 5000;
const pulse = document.getElementById("pulse");
const sent = new WeakMap();  // the parts as the server sent them, before charts are drawn in them
for (const part of document.querySelectorAll("[data-part]")) sent.set(part, part.innerHTML);

function show(isLive) {
  pulse.hidden = !isLive;
}

// The parts of this page, as the server shows them now.
async function refreshPage() {
  if (!document.hidden && document.body.hasAttribute("data-live")) {
    try {
      const answer = await fetch(location.href);
      if (answer.ok) {
        replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
        show(true);
      } else {
        show(false);
      }
    } catch {
      show(false);  // the server has ended, or starts anew
    }
  }
  if (document.body.hasAttribute("data-live")) setTimeout(refreshPage, PAGE_PAUSE);
}

function replaceParts(fresh) {
  if (!String(getSelection()).length) {
    for (const part of document.querySelectorAll("[data-part]")) {
      const newer = fresh.getElementById(part.id), html = newer?.innerHTML;
      if (newer && html !== sent.get(part) && !part.contains(document.activeElement)) {
        sent.set(part, html);
        const ticked = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
        part.replaceChildren(...newer.childNodes);
        for (const box of part.querySelectorAll("input[name=job]")) box.checked = ticked.has(box.value);
        if (window.Plotly) drawCharts(part);
      }
    }
  }
  if (!fresh.body.hasAttribute("data-live")) {
    document.body.removeAttribute("data-live");
    show(false);
  }
}

// New lines of a log, below the others.
async function refreshLog(box, pause) {
  let next = Math.min(pause * 1.5, LOG_SLOWEST);
  if (!document.hidden) {
    try {
      const address = new URL(box.dataset.source, location.href);
      address.searchParams.set("cursor", box.dataset.cursor);
      const answer = await fetch(address);
      if (answer.ok) {
        const page = await answer.json();
        addLines(box, page);
        if (page.ended && !page.more && page.count === 0) return show(document.body.hasAttribute("data-live"));
        if (page.count || page.more) next = page.more ? 50 : LOG_PAUSE;
        show(true);
      } else if (answer.status === 404) {
        return show(false);
      }
    } catch {
      show(false);
    }
  }
  setTimeout(refreshLog, next, box, next);
}

function addLines(box, page) {
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  box.dataset.cursor = page.cursor;
  for (const line of box.querySelectorAll(".unfinished")) line.remove();
  if (page.count) {
    box.insertAdjacentHTML("beforeend", page.html);
    for (const blank of document.querySelectorAll(".blank")) blank.remove();
    while (box.childElementCount > MOST_LINES) box.firstElementChild.remove();
  }
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const place = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(place.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(place);  // the browser does not allow more
    }
  });
}
for (const form of document.querySelectorAll(".filter")) {  // a choice applies at once, a text with Enter
  form.querySelector("button").hidden = form.classList.contains("wide");
  form.addEventListener("change", ({target}) => target.tagName === "SELECT" && form.requestSubmit());
}
for (const box of document.querySelectorAll(".log")) {
  if (!new URLSearchParams(location.search).has("at")) box.scrollTop = box.scrollHeight;
  if (box.dataset.source) setTimeout(refreshLog, LOG_PAUSE, box, LOG_PAUSE);
}
setTimeout(refreshPage, PAGE_PAUSE);
