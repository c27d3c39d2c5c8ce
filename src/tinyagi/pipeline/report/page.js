"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  const template = () => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { gridcolor: colour("--line"), linecolor: colour("--line"), zeroline: false, tickcolor: "transparent" };
    const panel = colour("--panel-2");
    return {
      layout: {
        font: { family: style.fontFamily, size: 12, color: colour("--muted") },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 44, r: 12, t: 30, b: 34 },
        barcornerradius: 3,
        hoverlabel: { bgcolor: panel, bordercolor: colour("--line"), align: "left", font: { color: colour("--text") } },
        legend: { orientation: "h", traceorder: "normal", x: 1, xanchor: "right", y: 1, yanchor: "bottom", bgcolor: "rgba(0,0,0,0)" },
        xaxis: axis,
        yaxis: axis,
      },
    };
  };

  const draw = () => {
    for (const [name, chart] of Object.entries(charts)) {
      const place = document.getElementById(`chart-${name}`);
      const layout = { ...chart.layout, template: template() };
      Plotly.react(place, chart.data, layout, { displayModeBar: false, responsive: true });
    }
  };

  draw();
  dark.addEventListener("change", draw);
})();
