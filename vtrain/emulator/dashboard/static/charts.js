"use strict";
// Draws the figures of a page, which are JSON, with plotly's script. Without it their words are shown.

const chosen = {isLog: false, weight: 0};

// An exponential moving average, without the weight of a start at zero.
function smoothed(values, weight) {
  let sum = 0, weights = 0;
  return values.map((value) => {
    sum = sum * weight + value * (1 - weight);
    weights = weights * weight + 1 - weight;
    return sum / weights;
  });
}

function drawCharts(part) {
  let hasCurves = false;
  for (const place of part.querySelectorAll("[data-figure]")) {
    const {data, layout} = JSON.parse(place.dataset.figure), font = {color: getComputedStyle(place).color};
    const modebar = {bgcolor: "transparent", color: "gray", activecolor: font.color};
    const clear = {paper_bgcolor: "transparent", plot_bgcolor: "transparent", font, modebar};
    const options = {
      responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
      // A touch screen shows the buttons all the time, over the chart: so only those that a finger needs.
      modeBarButtonsToRemove: ["zoom2d", "pan2d", "select2d", "lasso2d", "autoScale2d"],
    };
    if (layout.meta?.curve) {
      hasCurves = true;
      if (chosen.isLog) layout.yaxis = {...layout.yaxis, type: "log"};
      if (chosen.weight) for (const line of data) line.y = smoothed(line.y, chosen.weight);
    }
    const isDrawn = place.classList.contains("js-plotly-plot");
    if (!isDrawn) place.textContent = "";
    (isDrawn ? Plotly.react : Plotly.newPlot)(place, data, {...layout, ...clear}, options).catch((error) => {
      place.textContent = "This chart cannot be drawn here: " + error;
    });
  }
  if (hasCurves) for (const tools of document.querySelectorAll("[data-tools]")) tools.hidden = false;
}

for (const box of document.querySelectorAll("[data-log]")) {
  box.addEventListener("change", () => { chosen.isLog = box.checked; drawCharts(document); });
}
for (const range of document.querySelectorAll("[data-smooth]")) {
  range.addEventListener("input", () => { chosen.weight = Number(range.value); drawCharts(document); });
}
drawCharts(document);
