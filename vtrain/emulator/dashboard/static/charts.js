"use strict";
// Draws the figures of a page, which are JSON, with plotly's script. Without it their words are shown.

function drawCharts(part) {
  for (const place of part.querySelectorAll("[data-figure]")) {
    const {data, layout} = JSON.parse(place.dataset.figure), font = {color: getComputedStyle(place).color};
    const modebar = {bgcolor: "transparent", color: "gray", activecolor: font.color};
    const clear = {paper_bgcolor: "transparent", plot_bgcolor: "transparent", font, modebar};
    const options = {
      responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
      // A touch screen shows the buttons all the time, over the chart: so only those that a finger needs.
      modeBarButtonsToRemove: ["zoom2d", "pan2d", "select2d", "lasso2d", "autoScale2d"],
    };
    place.textContent = "";
    Plotly.newPlot(place, data, {...layout, ...clear}, options).catch((error) => {
      place.textContent = "This chart cannot be drawn here: " + error;
    });
  }
}

drawCharts(document);
