"use strict";
// The rows stand in the noscript element, a line each: without this script a browser
// shows them as a table, with it they are text that costs nothing until it is looked at.
(function () {
  const root = document.documentElement;
  const $ = (id) => document.getElementById(id);
  const words = JSON.parse($("words").textContent);
  const source = document.querySelector("noscript").textContent;
  const lines = source.split("\n").filter((l) => l.startsWith("<tr><td>"));
  const pageSizes = [50, 200, 1000];
  const printed = 2000;

  function el(name, attributes, ...children) {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes || {})) {
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (v !== false && v !== null) e.setAttribute(k, v === true ? "" : v);
    }
    e.append(...children.filter((c) => c !== null));
    return e;
  }
  const both = (zh, en) => {
    const f = document.createDocumentFragment();
    f.append(el("span", { lang: "zh" }, zh), " ", el("span", { lang: "en" }, en));
    return f;
  };
  const grouped = (n) => String(n).replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const numeric = (type) => ["integer", "number", "bytes", "duration"].includes(type);
  const word = (map, code) => both((map[code] || { Zh: code }).Zh, (map[code] || { En: code }).En);
  function sign(code) {
    const ns = "http" + "://www.w3.org/2000/svg";
    const s = document.createElementNS(ns, "svg"), u = document.createElementNS(ns, "use");
    s.setAttribute("class", "i " + code);
    s.setAttribute("aria-hidden", "true");
    u.setAttribute("href", "#i-" + code);
    s.append(u);
    return s;
  }

  // What the filters ask of each row, read once.
  const entities = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&#34;": '"', "&#39;": "'", "&#43;": "+" };
  const plain = (html) => html.replace(/<[^>]*>/g, " ").replace(/&(lt|gt|amp|#34|#39|#43);/g, (e) => entities[e]);
  const outcomeOf = {};
  for (const code of Object.keys(words.outcomes)) outcomeOf[words.outcomes[code].En] = code;
  const facts = lines.map((l) => {
    const cells = l.split("<td", 5);
    const said = /<span lang="?en"?>([^<]*)</.exec(cells[3]);
    const labels = plain(l.slice(l.lastIndexOf("<td") + 3).replace(/^[^>]*>/, "")).trim();
    const region = /(?:^|;)region=([^;]*)/.exec(labels);
    return {
      o: said ? outcomeOf[said[1]] : "",
      r: cells[4].replace(/^[^>]*>/, "").replace(/<.*$/, ""),
      g: region ? region[1] : "",
      late: cells[3].includes("补传"),
    };
  });
  const texts = new Array(lines.length);
  const textOf = (i) => texts[i] || (texts[i] = plain(lines[i]).toLowerCase());

  const head = new DOMParser().parseFromString(source.slice(0, source.indexOf("</thead>")) + "</thead></table>", "text/html");
  const titles = Array.from(head.querySelectorAll("thead th"), (th) => {
    const of = (l) => (th.querySelector("[lang=" + l + "]") || th).textContent;
    return { zh: of("zh"), en: of("en"), type: th.dataset.type };
  });
  const columns = titles.length - 19; // the job's own stand behind the first five
  const state = { o: "", r: "", g: "", q: "", late: "", page: 0, size: pageSizes[0] };
  let found = [];

  function match() {
    const asked = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    for (let i = 0; i < lines.length; i++) {
      const f = facts[i];
      if (state.o && (state.o === "missing" ? f.o === "succeeded" : f.o !== state.o)) continue;
      if (state.r && f.r !== state.r) continue;
      if (state.g && f.g !== (state.g === "-" ? "" : state.g)) continue;
      if (state.late && !f.late) continue;
      if (asked.length && !asked.every((a) => textOf(i).includes(a))) continue;
      found.push(i);
    }
  }

  const frame = document.createElement("template");
  function cellsOf(line) {
    frame.innerHTML = "<table><tbody>" + line + "</tbody></table>";
    return Array.from(frame.content.querySelectorAll("td"));
  }
  const labelled = (title, cell) => {
    cell.dataset.zh = title.zh;
    cell.dataset.en = title.en;
    return cell;
  };

  // The file has a value as the terminal sent it; people read it in groups, and as a word.
  function shownAs(type, value, cell) {
    if (type === "bool" && /^(true|false)$/.test(value)) return [value === "true" ? both("是", "yes") : both("否", "no")];
    if (numeric(type) && /^-?\d+(\.\d+)?$/.test(value)) return [grouped(value)];
    return cell.childNodes;
  }

  function rowOf(i) {
    const f = facts[i], cells = cellsOf(lines[i]);
    const more = el("button", { type: "button", "class": "more", "aria-expanded": "false", "aria-label": "详情 details: " + cells[0].textContent }, "+");
    const id = el("th", { scope: "row" }, more, " ", ...cells[0].childNodes);
    const outcome = labelled(titles[2], el("td", {}, sign(f.o), " ", word(words.outcomes, f.o), f.late ? both("（补传）", "(late)") : null));
    const why = labelled(titles[3], el("td", { "class": "v" }));
    if (f.r) why.append(word(words.reasons, f.r));
    if (cells[4].textContent) why.append(el("div", { "class": "error", tabindex: cells[4].querySelector("samp") && "0" }, ...cells[4].childNodes));
    const row = el("tr", { "class": f.o }, id, labelled(titles[1], el("td", {}, ...cells[1].childNodes)), outcome, why);
    if (!why.textContent) why.classList.add("empty");
    for (let c = 5; c < 5 + columns; c++) {
      const value = cells[c].textContent, number = cells[c].classList.contains("n");
      const cell = labelled(titles[c], el("td", { "class": number || numeric(titles[c].type) && value === "–" ? "v n" : "v" }, ...shownAs(titles[c].type, value, cells[c])));
      if (value.length <= 12) cell.classList.add("short"); // a date or a number is not broken
      if (value === "–") cell.classList.add("empty");
      row.append(cell);
    }
    more.addEventListener("click", () => {
      const open = more.getAttribute("aria-expanded") === "true";
      more.setAttribute("aria-expanded", String(!open));
      more.textContent = open ? "+" : "−";
      if (open) row.nextElementSibling.remove();
      else row.after(detailOf(i));
    });
    return row;
  }

  function detailOf(i) {
    const list = el("dl", { "class": "evidence" }), cells = cellsOf(lines[i]);
    const from = 5 + columns, whole = cells.length === titles.length;
    const shown = whole ? cells.slice(from) : cells.slice(-1);
    const names = whole ? titles.slice(from) : titles.slice(-1);
    if (facts[i].r) list.append(el("div", {}, el("dt", {}, both("原因代码", "reason code")), el("dd", {}, el("code", {}, facts[i].r))));
    shown.forEach((cell, k) => list.append(el("div", { "class": cell.querySelector("ol") && "wide" }, el("dt", {}, both(names[k].zh, names[k].en)), el("dd", {}, ...(cell.textContent === "" ? ["–"] : cell.childNodes)))));
    if (!whole) list.append(el("div", {}, el("dt", {}, both("过程", "evidence")), el("dd", {}, both("见 JSON、CSV 或 XLSX 文件", "in the JSON, CSV and XLSX files"))));
    return el("tr", { "class": "detail" }, el("td", { colspan: 4 + columns }, list));
  }

  const options = (pairs) => pairs.map(([value, zh, en]) => {
    const o = el("option", { value: value });
    o.dataset.zh = zh;
    o.dataset.en = en;
    return o;
  });
  const counted = (key) => {
    const n = new Map();
    for (const f of facts) n.set(f[key], (n.get(f[key]) || 0) + 1);
    return n;
  };
  const outcomes = counted("o"), reasons = counted("r"), regions = counted("g");
  const pairOf = (map, counts) => Object.keys(map).filter((c) => c && counts.get(c))
    .map((c) => [c, map[c].Zh + "（" + grouped(counts.get(c)) + "）", map[c].En + " (" + grouped(counts.get(c)) + ")"]);
  const select = (key, id, zh, en, pairs) => el("label", {}, both(zh, en),
    el("select", { id: id, onchange: (e) => ask({ [key]: e.target.value }) }, ...options(pairs)));

  const search = el("input", { type: "search", id: "q", autocomplete: "off", spellcheck: "false" });
  const status = el("p", { role: "status", id: "found" });
  const body = el("tbody", {});
  const header = el("tr", {}, ...titles.slice(0, 4 + 1 + columns).filter((t, k) => k !== 4)
    .map((t) => el("th", { scope: "col", "class": numeric(t.type) && "n" }, both(t.zh, t.en))));
  const where = el("span", { "class": "where" });
  const turn = (by, zh, en) => el("button", { type: "button", onclick: () => { state.page += by; show(); } }, both(zh, en));
  const back = turn(-1, "‹ 上一页", "‹ back"), next = turn(1, "下一页 ›", "next ›");

  function build() {
    const late = facts.some((f) => f.late);
    const bar = el("form", { "class": "filters", role: "search", onsubmit: (e) => e.preventDefault() },
      el("label", { "class": "grow" }, both("查找", "search"), search),
      select("o", "o", "结果", "outcome", [["", "全部", "all"], ["missing", "未成功", "not succeeded"], ...pairOf(words.outcomes, outcomes)]),
      select("r", "r", "原因", "reason", [["", "全部", "all"], ...pairOf(words.reasons, reasons)]),
      regions.size > 1 || !regions.has("") ? select("g", "g", "地区", "region",
        [["", "全部", "all"], ...Array.from(regions.keys()).sort().map((g) => [g || "-", (g || "未标地区") + "（" + grouped(regions.get(g)) + "）", (g || "no region") + " (" + grouped(regions.get(g)) + ")"])]) : null,
      late ? select("late", "late", "补传", "late", [["", "全部", "all"], ["1", "仅补传", "late only"]]) : null,
      select("size", "size", "每页", "a page", pageSizes.map((n) => [String(n), grouped(n), grouped(n)])),
      el("button", { type: "button", id: "clear", onclick: () => { search.value = ""; ask({ o: "", r: "", g: "", q: "", late: "" }); } }, both("清除", "clear")));
    let wait = 0;
    search.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => ask({ q: search.value }), 120);
    });
    const app = $("app");
    app.append(bar, status,
      el("div", { "class": "scroll", tabindex: "0", role: "group", "aria-labelledby": "h-all" },
        el("table", { id: "rows" }, el("thead", {}, header), body)),
      el("div", { "class": "pager" }, back, where, next));
    app.hidden = false;
    $("tools").hidden = false;
  }

  function show(from, to) {
    const pages = Math.max(1, Math.ceil(found.length / state.size));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const start = from === undefined ? state.page * state.size : from;
    const shown = found.slice(start, to === undefined ? start + Number(state.size) : to);
    const all = document.createDocumentFragment();
    for (const i of shown) all.append(rowOf(i));
    body.replaceChildren(all);
    const range = grouped(shown.length ? start + 1 : 0) + "–" + grouped(start + shown.length);
    status.replaceChildren(both("共 " + grouped(lines.length) + " 家，符合 " + grouped(found.length) + " 家，显示第 " + range + " 家",
      grouped(found.length) + " of " + grouped(lines.length) + " stores, showing " + range));
    where.replaceChildren(both("第 " + grouped(state.page + 1) + " / " + grouped(pages) + " 页", "page " + grouped(state.page + 1) + " of " + grouped(pages)));
    back.disabled = state.page === 0;
    next.disabled = state.page === pages - 1;
  }

  function ask(change, keepAddress) {
    Object.assign(state, change, { page: 0 });
    state.size = Number(state.size);
    for (const key of ["o", "r", "g", "late", "size"]) if ($(key)) $(key).value = String(state[key]);
    match();
    show();
    if (keepAddress) return;
    const asked = new URLSearchParams();
    for (const key of ["o", "r", "g", "q", "late"]) if (state[key]) asked.set(key, state[key]);
    try { history.replaceState(null, "", "#" + (String(asked) || "all")); } catch { /* some viewers forbid it */ }
  }

  // A link such as #o=failed&r=execution_error leads to the rows that it counts.
  function follow() {
    const hash = location.hash.slice(1);
    if (hash && hash !== "all" && !/^[orgq]=|^late=/.test(hash)) return;
    const asked = new URLSearchParams(hash === "all" ? "" : hash);
    search.value = asked.get("q") || "";
    ask({ o: asked.get("o") || "", r: asked.get("r") || "", late: asked.get("late") || "", q: search.value,
      g: asked.has("g") ? asked.get("g") || "-" : "" }, true);
    if (hash) {
      $("all").scrollIntoView();
      $("h-all").focus({ preventScroll: true });
    }
  }

  function speak(language) {
    root.dataset.l = language;
    root.lang = language === "zh" ? "zh-CN" : "en";
    $("zh").setAttribute("aria-pressed", String(language === "zh"));
    $("en").setAttribute("aria-pressed", String(language === "en"));
    search.placeholder = language === "zh" ? "编号、名称、错误、标签…" : "id, name, error, label…";
    for (const o of document.querySelectorAll("option")) o.textContent = o.dataset[language];
    try { localStorage.setItem("muster.language", language); } catch { /* a file may have no storage */ }
  }
  function remembered() {
    try {
      const known = localStorage.getItem("muster.language");
      if (known === "zh" || known === "en") return known;
    } catch { /* then the browser's */ }
    return /^zh/i.test(navigator.language) ? "zh" : "en";
  }

  build();
  speak(remembered());
  $("zh").addEventListener("click", () => speak("zh"));
  $("en").addEventListener("click", () => speak("en"));
  $("print").addEventListener("click", () => print());
  addEventListener("hashchange", follow);
  addEventListener("beforeprint", () => show(0, printed));
  addEventListener("afterprint", () => show());
  follow();
})();
