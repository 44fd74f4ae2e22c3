// The page of `mmctl ui`: #/ lists models, #/NAMESPACE/NAME shows one. Names, messages and answers are of others:
// every text is set as text, never as HTML.
"use strict";

const SECONDS = 5;
const MOST_BYTES = 20_000_000;
const $ = (id) => document.getElementById(id);
const CLASSES = { "✓": "good", "✗": "bad", "…": "wait", "·": "quiet" };
const WORDS = { "✓": "complete", "✗": "needs you", "…": "in work", "·": "not yet" };

if (location.hash.length > 1 && !location.hash.startsWith("#/")) {
  localStorage.setItem("token", location.hash.slice(1));
  history.replaceState(null, "", "#/");
}

async function call(path, body) {
  const headers = { Authorization: `Bearer ${localStorage.getItem("token")}` };
  const sent = body ? { method: "POST", body: JSON.stringify(body) } : {};
  const answer = await fetch(path, { ...sent, headers }).catch(() => { throw new Error("mmctl ui does not run any more"); });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

const time = (given) => given ? make("time", { dateTime: given, title: given }, new Date(given).toLocaleString()) : "";
const section = (title, ...children) => make("section", {}, make("h2", {}, title), ...children);
const marked = (mark, text) => make("span", { className: CLASSES[mark] }, `${mark} ${text}`);

/** columns: titles; one that begins with ~ is hidden on narrow screens. rows: of elements or texts. */
function table(columns, rows) {
  const kind = (index) => ({ className: columns[index].startsWith("~") ? "wide" : "" });
  const head = columns.map((one, index) => make("th", { scope: "col", ...kind(index) }, one.replace("~", "")));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell, index) => make("td", kind(index), cell))));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}

function fleet(models) {
  if (!models.length) return [section("No models here", make("p", {}, "mmctl ui -A shows those of all namespaces"))];
  return [section(`${models.filter((one) => one.ready).length} of ${models.length} are Ready`, table(
    ["Model", "~Backend", "~GPU", "Replicas", "State"],
    models.map((one) => [
      make("a", { href: `#/${one.namespace}/${one.name}` }, `${one.namespace}/${one.name}`),
      one.backend, one.gpu, one.replicas, marked(one.mark, one.waits)])))];
}

function model(one) {
  const stages = one.stages.map(([name, mark]) => make("li", {}, marked(mark, `${name}: ${WORDS[mark]}`)));
  const conditions = one.conditions.map((it) => [it.type, it.status, time(it.lastTransitionTime),
    make("div", {}, make("b", {}, it.reason), make("pre", {}, it.message ?? ""))]);
  const steps = Object.entries(one.build.stepSeconds ?? {}).map(([name, took]) => [name, `${took.toFixed(1)} s`]);
  const changes = one.history.map((it) => [time(it.time), `${it.fromReplicas} → ${it.toReplicas}`, it.reason]);
  const events = one.events.map((it) => [time(it.time), it.reason, it.type, String(it.count), it.message]);
  const none = (text) => make("p", { className: "quiet" }, text);
  return [
    section(`State: ${one.waits}`, make("ol", { className: "stages" }, ...stages),
      one.stale ? none("This is the state of an older spec; the new one is not reconciled yet.") : null,
      one.url ? make("p", {}, `Address: ${one.url}`) : null),
    section("Conditions", table(["Type", "Status", "~Since", "Reason"], conditions)),
    section("Memory plan", ...(one.bars.length ? one.bars.map(barOf) : [none("There is no plan yet.")])),
    section("Scaling", make("pre", {}, one.scaling.join("\n")),
      changes.length ? table(["Time", "Replicas", "Reason"], changes) : null),
    section("Build", one.progress ? make("p", {}, one.progress) : null,
      steps.length ? table(["Step", "Took"], steps) : none("No step has finished.")),
    section("Events", one.eventsProblem ? none(one.eventsProblem) : events.length
      ? table(["Time", "Reason", "~Type", "~Count", "Message"], events) : none("There are none; Kubernetes keeps them for an hour.")),
  ];
}

let shown = "";

async function refresh() {
  const place = location.hash.slice(2);
  try {
    const found = await call(`/api/models/${place}`.replace(/\/$/, ""));
    if (location.hash.slice(2) !== place) return;
    $("problem").textContent = "";
    const text = place + JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    const open = [...$("live").querySelectorAll("details")].map((it) => it.open);
    $("live").replaceChildren(...(place ? model(found) : fleet(found)));
    $("live").querySelectorAll("details").forEach((it, index) => { it.open = open[index] ?? true; });
    $("ask").hidden = !found.ready;
  } catch (error) {
    $("problem").textContent = error.message;
  }
}

function go() {
  const place = decodeURIComponent(location.hash.slice(2));
  $("title").textContent = document.title = place || "Models";
  $("live").replaceChildren();
  $("ask").hidden = true;
  $("answer").textContent = shown = "";
  $("title").focus();
  refresh();
}

$("ask").querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const place = location.hash.slice(2);
  const button = event.target.querySelector("button");
  const [file] = $("image").files;
  const body = { text: $("text").value };
  button.disabled = true;
  $("answer").textContent = "waiting for the answer";
  let said;
  try {
    if (file?.size > MOST_BYTES) throw new Error("the image is larger than 20 MB");
    if (file) body.image = await new Promise((done, failed) => {
      const reader = Object.assign(new FileReader(), { onload: () => done(reader.result), onerror: () => failed(reader.error) });
      reader.readAsDataURL(file);
    });
    said = (await call(`/api/models/${place}/answer`, body)).answer;
  } catch (error) {
    said = `not answered: ${error.message}`;
  }
  if (location.hash.slice(2) === place) $("answer").textContent = said;
  button.disabled = false;
});

addEventListener("hashchange", go);
setInterval(() => { if (!document.hidden) refresh(); }, SECONDS * 1000);
go();
