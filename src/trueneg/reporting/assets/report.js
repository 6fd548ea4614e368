"use strict";
// Saves pictures and tables, reads charts out, and searches, filters and sorts corrections. Text is only ever set as
// text: nothing of the data becomes markup.
(() => {
  const $ = (query, inside = document) => inside.querySelector(query);
  const all = (query, inside = document) => [...inside.querySelectorAll(query)];
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };
  const save = (name, type, text) => {
    const link = make("a", "", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  const csv = (rows) => rows.map((row) => row.map((value) => {
    let text = String(value ?? "");
    // A spreadsheet would take it for a formula.
    if (/^[=+\-@\t\r]/.test(text) && typeof value !== "number") text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(",")).join("\n") + "\n";
  const number = (value, digits = 5) => Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 6 });

  // --- pictures ---------------------------------------------------------------------------------------------------

  const svgOf = (figure) => {
    const shown = all("svg", figure).find((svg) => svg.getClientRects().length);
    const copy = shown.cloneNode(true);
    all(".cursor", copy).forEach((line) => line.remove());
    const probe = make("span", "", { style: "color-scheme: light" });
    document.body.append(probe);
    const color = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    const text = new XMLSerializer().serializeToString(copy)
      .replace(/var\(--(\w+)\)/g, (_, name) => color(name))
      .replaceAll("currentColor", color("ink"));
    probe.remove();
    return text;
  };

  const readOut = (figure, chart) => {
    const svg = $("svg", figure), output = $("output", figure);
    const places = [...new Set(chart.lines.flatMap((line) => line.points.map(([x]) => x)))].sort((a, b) => a - b);
    const [left, top, right, bottom] = chart.box, [from, to] = chart.x;
    let at = -1, cursor = null;
    const show = (index) => {
      at = Math.max(0, Math.min(places.length - 1, index));
      const x = places[at], across = left + (x - from) / (to - from) * (right - left);
      if (!cursor) {
        cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
        cursor.setAttribute("class", "cursor");
        svg.append(cursor);
      }
      for (const [name, value] of Object.entries({ x1: across, x2: across, y1: top, y2: bottom })) cursor.setAttribute(name, value);
      const said = chart.lines.map((line) => {
        // Steps are drawn with the value of their end: where="pre" of matplotlib.
        const exact = line.points.find(([place]) => line.kind === "steps" ? place >= x : place === x);
        return exact && `${line.name}${line.kind === "dots" ? " (held out)" : ""} ${number(exact[1], 4)}`;
      }).filter(Boolean);
      output.textContent = `${chart.across} ${number(x)}: ${said.join(" · ")}`;
    };
    const hide = () => {
      cursor?.remove();
      cursor = null;
      output.textContent = "";
    };
    const nearest = (event) => {
      const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      const x = from + ((event.clientX - box.left) / box.width * view.width - left) / (right - left) * (to - from);
      let best = 0;
      places.forEach((place, index) => { if (Math.abs(place - x) < Math.abs(places[best] - x)) best = index; });
      show(best);
    };
    svg.addEventListener("pointermove", nearest);
    svg.addEventListener("pointerdown", nearest);
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("keydown", (event) => {
      const moves = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: places.length - 1 };
      if (event.key in moves) {
        event.preventDefault();
        show(moves[event.key]);
      } else if (event.key === "Escape") hide();
    });
    svg.addEventListener("blur", hide);
    svg.setAttribute("tabindex", "0");
  };

  for (const figure of all("figure[data-name]")) {
    const data = $("script", figure), tools = $(".tools", figure), name = figure.dataset.name;
    const button = (text, does) => {
      const made = make("button", text, { type: "button", "aria-label": `${text}: save ${name}` });
      made.addEventListener("click", does);
      tools.append(made);
    };
    button("SVG", () => save(`${name}.svg`, "image/svg+xml", svgOf(figure)));
    if (!data) continue;
    const chart = JSON.parse(data.textContent);
    readOut(figure, chart);
    button("CSV", () => save(`${name}.csv`, "text/csv", csv([
      ["name", "kind", chart.across, "value"],
      ...chart.lines.flatMap((line) => line.points.map(([x, y]) => [line.name, line.kind, x, y])),
    ])));
  }

  // --- corrections ------------------------------------------------------------------------------------------------

  const source = $("#corrections-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  source.remove();
  const ROWS = 40, { words, parts, groups } = data, num = data.gold.length;
  const lowerWords = words.map((word) => word.toLowerCase());
  const body = $("#corrections-table tbody"), form = $("#corrections-filters");
  const text = (column) => (row) => words[data[column][row]];
  const columns = {
    gold: { show: text("gold") },
    predicted: { show: text("predicted") },
    probability: { show: (row) => data.probability[row], digits: 2 },
    gold_probability: { show: (row) => data.gold_probability[row], digits: 2 },
    credit: { show: (row) => data.credit[row], digits: 2 },
    part: { show: (row) => parts[data.part[row]] },
    group: { show: (row) => groups[data.group[row]].name },
  };
  const headings = all("#corrections-table th[data-column]");
  const labels = Object.fromEntries(headings.map((th) => [th.dataset.column, th.textContent.trim()]));
  const used = headings.map((th) => th.dataset.column).filter((name) => name in columns);
  let lowered = null, shown = [], page = 0;
  // The form is the one place of it, headings or not: a phone shows no headings.
  const sort = () => {
    const [column, order] = form.elements.sort.value.split(" ");
    return { column, descending: order === "descending" };
  };

  const sorted = (() => {
    const orders = new Map();
    return () => {
      const { column, descending } = sort();
      if (!orders.has(column)) {
        const value = columns[column].show, keys = Array.from({ length: num }, (_, row) => value(row));
        const compare = typeof keys.find((key) => key != null) === "number"
          ? (a, b) => (keys[a] ?? -1) - (keys[b] ?? -1)
          : (() => { const { compare } = new Intl.Collator("en"); return (a, b) => compare(keys[a] ?? "", keys[b] ?? ""); })();
        orders.clear(); // one at a time: 100,000 numbers each
        orders.set(column, Array.from({ length: num }, (_, row) => row).sort((a, b) => compare(a, b) || b - a));
      }
      return descending ? orders.get(column).toReversed() : orders.get(column);
    };
  })();

  const choose = () => {
    const asked = Object.fromEntries(new FormData(form));
    const wanted = (asked.search ?? "").trim().toLowerCase();
    if (wanted && !lowered) {
      lowered = Array.from({ length: num }, (_, row) =>
        `${data.before[row]} ${columns.gold.show(row)} → ${columns.predicted.show(row)} ${data.after[row]}`.toLowerCase());
    }
    const isIn = (name, value) => !asked[name] || asked[name] === String(value);
    const least = (name, value) => !asked[name] || (value ?? -1) >= Number(asked[name]);
    const pairs = new Set(), sentences = new Set();
    shown = sorted().filter((row) => {
      const group = groups[data.group[row]];
      if (!(isIn("detector", group.detector) && isIn("run", group.run) && isIn("text", group.text)
        && isIn("part", data.part[row]) && least("probability", data.probability[row])
        && least("credit", data.credit[row]) && (!wanted || lowered[row].includes(wanted)))) return false;
      if (!asked.once) return true;
      const pair = [lowerWords[data.gold[row]], lowerWords[data.predicted[row]]].sort().join("\n");
      const sentence = data.before[row] + data.after[row];
      if (pairs.has(pair) || sentences.has(sentence)) return false;
      pairs.add(pair);
      sentences.add(sentence);
      return true;
    });
    page = 0;
    render();
  };

  const render = () => {
    const pages = Math.max(1, Math.ceil(shown.length / ROWS)), first = page * ROWS;
    const rows = shown.slice(first, first + ROWS).map((row) => {
      const tr = document.createElement("tr");
      for (const name of used) {
        const { show, digits } = columns[name], value = show(row);
        const cell = value == null || value === "" ? "–" : digits ? value.toFixed(digits) : value;
        tr.append(make("td", cell, { "data-label": labels[name], class: digits ? "number" : name }));
      }
      const context = make("td", "", { class: "context" });
      context.append(`${data.before[row]} `, make("span", columns.gold.show(row), { class: "gold" }), " ",
        make("span", columns.predicted.show(row), { class: "predicted" }), ` ${data.after[row]}`);
      tr.append(context);
      return tr;
    });
    body.replaceChildren(...rows);
    $("#corrections-count").textContent = shown.length
      ? `${(first + 1).toLocaleString("en")}–${Math.min(first + ROWS, shown.length).toLocaleString("en")} of `
        + `${shown.length.toLocaleString("en")}${shown.length < num ? ` chosen, of ${num.toLocaleString("en")}` : ""}`
      : `none of ${num.toLocaleString("en")}: change what is asked for`;
    const [start, previous, next, end] = all(".pages button[data-to]");
    start.disabled = previous.disabled = page === 0;
    next.disabled = end.disabled = page >= pages - 1;
    const { column, descending } = sort();
    for (const th of headings) {
      if (th.dataset.column === column) th.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    }
  };

  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(choose, 120);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(choose));
  for (const th of headings) {
    $("button", th)?.addEventListener("click", () => {
      const column = th.dataset.column, now = sort();
      const descending = now.column === column ? !now.descending : "digits" in columns[column];
      form.elements.sort.value = `${column} ${descending ? "descending" : "ascending"}`;
      choose();
    });
  }
  for (const button of all(".pages button[data-to]")) {
    button.addEventListener("click", () => {
      const last = Math.max(0, Math.ceil(shown.length / ROWS) - 1);
      page = { start: 0, previous: page - 1, next: page + 1, end: last }[button.dataset.to];
      page = Math.max(0, Math.min(last, page));
      render();
      $("#corrections-table").scrollIntoView({ block: "nearest" });
    });
  }
  $("#corrections-csv").addEventListener("click", () => save("corrections.csv", "text/csv", csv([
    [...Object.keys(columns), "before", "after"],
    ...shown.map((row) => [...Object.values(columns).map(({ show }) => show(row)), data.before[row], data.after[row]]),
  ])));
  choose();
})();
