"use strict";
// The page: what is typed goes to /api/annotate, what is clicked to /api/explain; nothing else is asked.

const by = id => document.getElementById(id);
const FIELDS = [
  ["lemma", "lemma"], ["upos", "UPOS"], ["xpos", "XPOS"], ["feats", "features"],
  ["head", "head"], ["label", "label"], ["ner", "entity"], ["chunk", "chunk"], ["tag", "tag"],
];
const EXAMPLE = "Ada Lovelace flew from London to Oslo with an old friend from the Foreign Office. She didn't like the food on the plane.";
const state = {sentences: [], models: [], asked: null, sent: null, timer: 0, picked: null};

// ---- Small helpers ----

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node[name] = value;
    else if (name === "disabled" || name === "hidden") node[name] = value;
    else if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

const percent = p => p === undefined ? "–" : p >= .9995 ? "100 %" : (100 * p).toFixed(p < .1 ? 2 : 1) + " %";
const signed = x => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(3);

async function ask(path, body, signal) {
  let answer;
  try {
    answer = await fetch(path, body === undefined ? {signal} : {
      method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify(body), signal});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer: is it still running?");
  }
  const found = await answer.json().catch(() => ({error: "The answer cannot be read."}));
  if (!answer.ok) throw new Error(found.error || "The server answered " + answer.status + ".");
  return found;
}

function problem(text) {
  by("problem").hidden = !text;
  by("problem").textContent = text || "";
}

async function copy(button, what) {
  const label = button.textContent;
  try { await what(); button.textContent = "Copied"; }
  catch (error) { button.textContent = error.message === "saved" ? "Saved" : "Not allowed"; }
  setTimeout(() => { button.textContent = label; }, 1400);
}

// ---- Annotation ----

async function analyse() {
  const text = by("text").value, model = by("model").value;
  clearTimeout(state.timer);
  state.asked?.abort();
  state.sent = model + "\n" + text;
  const asked = state.asked = new AbortController();
  if (!text.trim()) { show([]); problem(""); by("status").textContent = ""; return; }
  by("status").textContent = "…";
  const began = performance.now();
  try {
    const found = await ask("api/annotate", {text, model, draw: true}, asked.signal);
    const words = found.sentences.reduce((n, s) => n + s.tokens.length, 0);
    problem("");
    show(found.sentences);
    by("status").textContent = words + (words === 1 ? " word, " : " words, ") + Math.round(performance.now() - began) + " ms";
  } catch (error) {
    if (error.name === "AbortError") return;
    by("status").textContent = "";
    show([]);
    problem(error.message);
  }
}

function show(sentences) {
  state.sentences = sentences;
  const types = [...new Set(sentences.flatMap(s => (s.entities || []).map(e => e.type)))].sort();
  by("results").replaceChildren(...sentences.map((s, k) => card(s, k, types)));
  by("copy-all").disabled = !sentences.length;
  document.querySelectorAll(".view").forEach(fit);
  clearWhy();
}

function card(sentence, k, types) {
  const view = make("div", {class: "view"});
  const views = {Tree: tree, Table: table, "CoNLL-U": s => make("pre", {}, s.conllu.trimEnd())};
  const copier = make("button", {class: "quiet copy", onclick: event => copy(event.target, () => {
    const svg = view.querySelector("svg");
    return svg ? picture(svg, k) : navigator.clipboard.writeText(sentence.conllu);
  })});
  const tabs = Object.keys(views).map(name => make("button", {role: "tab", onclick: () => open(name)}, name));
  function open(name) {
    for (const tab of tabs) tab.setAttribute("aria-selected", tab.textContent === name);
    copier.textContent = name === "Tree" ? "Copy picture" : "Copy CoNLL-U";
    view.replaceChildren(views[name](sentence, k));
    fit(view);
    mark();
  }
  const node = make("article", {class: "sentence", "data-sentence": k},
    make("div", {class: "head"}, marked(sentence, k, types),
      make("div", {class: "tools"}, make("div", {class: "tabs", role: "tablist"}, ...tabs), copier)),
    view);
  const drawn = sentence.tokens.some(t => t.head !== undefined);
  open(drawn ? "Tree" : "Table");
  return node;
}

// A picture that is a little too wide is made smaller; one that is much too wide scrolls.
function fit(view) {
  const svg = view.querySelector("svg");
  if (!svg || !view.clientWidth) return;
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const scale = Math.min(1, Math.max(.72, (view.clientWidth - 10) / width));
  svg.setAttribute("width", Math.floor(width * scale));
  svg.setAttribute("height", Math.ceil(height * scale));
}

// The sentence as text: words can be clicked, entities have their colour.
function marked(sentence, k, types) {
  const starts = new Map((sentence.entities || []).map(e => [e.start, e]));
  const ranges = new Map((sentence.multiwords || []).map(r => [r.first, r]));
  const out = make("p", {class: "text", dir: "auto"});
  let into = out, entity = null, shown = 0;
  sentence.tokens.forEach((token, m) => {
    const before = sentence.tokens[m - 1], range = ranges.get(token.id);
    const glued = !before || (before.misc || {}).SpaceAfter === "No" || (before.end !== undefined && before.end === token.start);
    if (token.id > shown && !glued) into.append(" ");
    if (starts.has(m)) {
      entity = starts.get(m);
      into = make("mark", {class: "t" + types.indexOf(entity.type) % 8, title: entity.probability === undefined ? null : percent(entity.probability)});
      out.append(into);
    }
    const of = entity ? "ner" : "";
    if (token.id > shown) {
      into.append(make("span", {class: "w", "data-word": token.id, onclick: () => pick(k, token.id, of)}, range ? range.text : token.text));
      shown = range ? range.last : token.id;
    }
    if (entity && m === entity.end - 1) {
      into.append(make("small", {onclick: () => pick(k, token.id, "ner")}, entity.type));
      [into, entity] = [out, null];
    }
  });
  return out;
}

function tree(sentence, k) {
  const box = make("div");
  box.innerHTML = sentence.svg;
  box.onclick = event => {
    const at = event.target.closest("[data-word]");
    if (!at) return;
    const arc = at.closest(".arcs"), tag = at.closest(".tags");
    const of = tag ? "upos" : !arc ? "" : event.target.closest("text, rect") ? "label" : "head";
    pick(k, Number(at.dataset.word), of);
  };
  return box;
}

function table(sentence, k) {
  const shown = FIELDS.filter(([name]) => sentence.tokens.some(t => t[name] !== undefined));
  const word = id => id === 0 ? "root" : sentence.tokens[id - 1].text;
  const rows = sentence.tokens.map(token => make("tr", {"data-word": token.id},
    make("td", {class: "n"}, String(token.id)),
    make("td", {"data-of": "", onclick: () => pick(k, token.id, "")}, token.text),
    ...shown.map(([name]) => {
      const value = token[name], p = (token.probabilities || {})[name];
      if (value === undefined) return make("td");
      const text = name === "head" ? value + " " + word(value) : String(value);
      const chance = p === undefined ? null : make("i", {class: p < .7 ? "low" : null}, percent(p));
      return make("td", {"data-of": name, onclick: () => pick(k, token.id, name)}, text, chance);
    })));
  return make("table", {}, make("thead", {}, make("tr", {}, make("th"), make("th", {}, "word"),
    ...shown.map(([, title]) => make("th", {}, title)))), make("tbody", {}, ...rows));
}

// ---- Pictures ----

// A picture that needs no style sheet: the rules go into it, in the colours of the page.
async function standalone(svg) {
  const style = getComputedStyle(document.documentElement);
  const rules = (await (await fetch("drawing.css")).text()).replace(/var\(--(\w+)\)/g, (_, name) => style.getPropertyValue("--" + name).trim());
  const clone = svg.cloneNode(true);
  clone.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  clone.querySelectorAll(".on").forEach(node => node.classList.remove("on"));
  const [background, sheet] = ["rect", "style"].map(tag => document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", style.getPropertyValue("--page").trim()]])
    background.setAttribute(name, value);
  sheet.textContent = rules;
  clone.prepend(sheet, background);
  return new XMLSerializer().serializeToString(clone);
}

async function picture(svg, k) {
  const source = await standalone(svg);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(source);
  await image.decode();
  const canvas = make("canvas", {width: 2 * image.width, height: 2 * image.height});
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const png = await new Promise(done => canvas.toBlob(done, "image/png"));
  try {
    await navigator.clipboard.write([new ClipboardItem({"image/png": png})]);
  } catch {
    const link = make("a", {href: URL.createObjectURL(png), download: "sentence-" + (k + 1) + ".png"});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    throw new Error("saved");
  }
}

// ---- Explanations ----

function clearWhy() {
  state.picked = null;
  by("why").classList.remove("open");
  document.body.classList.remove("asked");
  by("why").replaceChildren(make("p", {class: "hint"}, "Click a word, a tag, an arc or an entity to see which features of the text speak for it."));
  mark();
}

function mark() {
  document.querySelectorAll(".on").forEach(node => node.classList.remove("on"));
  if (!state.picked) return;
  const {k, word} = state.picked;
  document.querySelectorAll(`[data-sentence="${k}"] [data-word="${word}"]`).forEach(node => node.classList.add("on"));
}

async function pick(k, word, of, against) {
  const asked = state.picked = {k, word, of};
  mark();
  try {
    const found = await ask("api/explain", {model: by("model").value, conllu: state.sentences[k].conllu, word, against, top: 12});
    if (state.picked !== asked) return;
    why(found.explanations, asked, against);
  } catch (error) {
    if (state.picked === asked) problem(error.message);
  }
}

function why(found, asked, against) {
  const panel = by("why");
  const all = against === undefined ? state.explained = found : state.explained.map(e => found.find(f => f.of === e.of) || e);
  const one = all.find(e => e.of === asked.of) || all[0];
  panel.classList.add("open");
  document.body.classList.add("asked");
  if (innerWidth <= 1000) document.querySelector(`[data-sentence="${asked.k}"]`).scrollIntoView();
  const close = make("button", {id: "close", class: "quiet", onclick: clearWhy}, "Close");
  const token = state.sentences[asked.k].tokens[asked.word - 1];
  const top = make("div", {class: "top"}, make("h2", {}, token.text, make("small", {}, "word " + asked.word)), close);
  if (!one) { panel.replaceChildren(top, make("p", {class: "hint"}, "There is no other choice for this word.")); return; }
  const chips = make("div", {class: "chips", role: "tablist"}, ...all.map(e => make("button",
    {role: "tab", "aria-selected": e === one, "data-of": e.of, onclick: () => { state.picked = {...asked, of: e.of}; why(all, state.picked); }},
    make("span", {}, e.of), make("b", {}, value(e, e.chosen)))));
  panel.replaceChildren(top, chips, ...reasons(one, asked));
  panel.scrollTop = 0;
}

const value = (e, v) => e.of !== "head" ? v : v === "0" ? "root" : e.words[Number(v) - 1];

function reasons(e, asked) {
  const named = v => e.of === "head" && v !== "0" ? v + " " + value(e, v) : value(e, v);
  const choices = e.alternatives.map(([v, p]) => {
    const bar = make("i");
    bar.style.width = Math.max(1, 100 * p) + "%";
    const kind = v === e.chosen ? " chosen" : v === e.other ? " other" : "";
    return make("button", {class: "choice" + kind, disabled: v === e.chosen, "data-value": v,
      title: v === e.chosen ? "what the model chose" : "compare with this one",
      onclick: () => pick(asked.k, asked.word, e.of, v)},
      make("span", {class: "name"}, named(v)), make("span", {class: "bar"}, bar), make("span", {class: "p"}, percent(p)));
  });
  const widest = Math.max(...e.features.map(f => Math.abs(f.weight)), 1e-9);
  const features = e.features.map(f => {
    const bar = make("i"), share = 50 * Math.abs(f.weight) / widest;
    bar.style.width = share + "%";
    bar.style.left = (f.weight < 0 ? 50 - share : 50) + "%";
    return make("li", {class: f.weight < 0 ? "against" : "for"},
      make("code", {}, f.name), make("span", {class: "weight"}, signed(f.weight)),
      make("span", {class: "second"}, make("span", {class: "part"}, f.part), make("span", {class: "both"}, bar)));
  });
  if (e.rest.features) features.push(make("li", {class: "rest"}, make("span", {}, e.rest.features + " more features"), make("span", {class: "weight"}, signed(e.rest.weight))));
  features.push(make("li", {class: "sum"}, make("span", {}, "difference of the scores"), make("span", {class: "weight"}, signed(e.difference))));
  const changes = e.changes.filter(c => c.word !== e.word).map(c => c.form + " (" + named(c.chosen) + " → " + named(c.other) + ")");
  return [
    make("h3", {}, "Probabilities"), ...choices,
    make("h3", {}, "Reasons"),
    make("p", {class: "verdict"}, "What speaks for ", make("b", {class: "for"}, named(e.chosen)), ", and what for ", make("b", {class: "against"}, named(e.other)), ":"),
    make("ol", {class: "features"}, ...features),
    changes.length ? make("p", {class: "note"}, "With " + named(e.other) + " other words would change too: " + changes.join(", ") + ".") : null,
  ].filter(Boolean);
}

// ---- Begin ----

function describe() {
  const model = state.models.find(m => m.name === by("model").value);
  const licences = [...new Set(model.stages.map(s => s.licence).filter(Boolean))];
  by("card").textContent = model.name + ": " + model.gives.join(", ") + (licences.length ? " · " + licences.join(", ") : "");
}

by("go").onclick = analyse;
by("copy-all").onclick = event => copy(event.target, () => navigator.clipboard.writeText(state.sentences.map(s => s.conllu).join("\n")));
by("model").onchange = () => { describe(); analyse(); };
by("text").oninput = () => { clearTimeout(state.timer); state.timer = setTimeout(analyse, 450); };
by("text").onkeydown = event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); analyse(); } };
addEventListener("resize", () => document.querySelectorAll(".view").forEach(fit));
addEventListener("keydown", event => { if (event.key === "Escape") clearWhy(); });

(async () => {
  try {
    const found = await ask("api/models");
    state.models = found.models;
    by("model").replaceChildren(...found.models.map(m => make("option", {value: m.name}, m.name)));
    by("text").value ||= EXAMPLE;
    describe();
    await analyse();
  } catch (error) { problem(error.message); }
})();
