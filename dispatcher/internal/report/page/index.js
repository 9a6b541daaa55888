"use strict";
(function () {
  const $ = (id) => document.getElementById(id);
  const root = document.documentElement;
  const rows = Array.from(document.querySelectorAll("#runs tbody tr"));
  const texts = rows.map((r) => r.textContent.toLowerCase());

  function show() {
    const asked = $("q").value.toLowerCase().split(/\s+/).filter(Boolean);
    const job = $("job").value, verdict = $("verdict").value, day = $("day").value;
    let n = 0;
    rows.forEach((row, i) => {
      const d = row.dataset;
      row.hidden = Boolean(job && d.job !== job || verdict && d.verdict !== verdict || day && d.day !== day ||
        !asked.every((a) => texts[i].includes(a)));
      if (!row.hidden) n++;
    });
    $("found").textContent = root.dataset.l === "zh" ? "共 " + rows.length + " 批，符合 " + n + " 批" : n + " of " + rows.length + " runs";
  }

  function speak(language) {
    root.dataset.l = language;
    root.lang = language === "zh" ? "zh-CN" : "en";
    for (const l of ["zh", "en"]) $(l).setAttribute("aria-pressed", String(language === l));
    for (const o of document.querySelectorAll("option[data-zh]")) o.textContent = o.dataset[language];
    try { localStorage.setItem("muster.language", language); } catch { /* a file may have no storage */ }
    show();
  }
  let known = null;
  try { known = localStorage.getItem("muster.language"); } catch { /* then the browser's */ }

  $("filters").hidden = false;
  $("tools").hidden = false;
  $("filters").addEventListener("submit", (e) => e.preventDefault());
  for (const id of ["q", "job", "verdict", "day"]) $(id).addEventListener("input", show);
  $("clear").addEventListener("click", () => {
    for (const id of ["q", "job", "verdict", "day"]) $(id).value = "";
    show();
  });
  $("zh").addEventListener("click", () => speak("zh"));
  $("en").addEventListener("click", () => speak("en"));
  speak(known === "zh" || known === "en" ? known : /^zh/i.test(navigator.language) ? "zh" : "en");
})();
