"use strict";
// Trying the peer's model on the live page: download, the prediction for a picture or a row that is dropped or chosen, and
// the continuation of a text. The browser reads pictures; the peer gets numbers (docs/API.md, "predict" and "generate").
const Try = (() => {
  const $ = (id) => document.getElementById(id);
  const CLASSES = 5;   // shown, the likeliest first
  let page = null;     // what live.js offers
  let input = null;    // {shape, pixels, classes}
  let pixels = null;   // of the picture as it was given: one array per channel, before inversion

  const say = (words) => page.put($("try-wrong"), words);
  const shapeWords = () => {
    const [channels, height, width] = input.shape;
    if (!input.pixels && height === 1 && width === 1) return `a row of ${channels} numbers, with commas or spaces between them`;
    return `a picture; the model sees ${width} x ${height} pixels${channels === 1 ? ", light on dark" : ""}`;
  };
  const isRow = () => !input.pixels;

  // The picture, scaled to the model's size in the middle of a square of its own shape, as one array per channel.
  const channelsOf = async (file) => {
    const [channels, height, width] = input.shape;
    const picture = await createImageBitmap(file);
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, width, height);
    pen.imageSmoothingQuality = "high";
    const scale = Math.min(width / picture.width, height / picture.height);
    const [w, h] = [picture.width * scale, picture.height * scale];
    pen.drawImage(picture, (width - w) / 2, (height - h) / 2, w, h);
    const { data } = pen.getImageData(0, 0, width, height), at = (k, c) => data[4 * k + c], n = width * height;
    const gray = (k) => Math.round(0.299 * at(k, 0) + 0.587 * at(k, 1) + 0.114 * at(k, 2));
    if (channels === 1) return [Uint8Array.from({ length: n }, (_, k) => gray(k))];
    return Array.from({ length: channels }, (_, c) => Uint8Array.from({ length: n }, (_, k) => at(k, Math.min(c, 2))));
  };
  // Whether the border is lighter than the middle gray: then the drawing is dark on light.
  const isDarkOnLight = ([plane]) => {
    const [, height, width] = input.shape, border = [];
    for (let y = 0; y < height; ++y) for (let x = 0; x < width; ++x) if (y === 0 || x === 0 || y === height - 1 || x === width - 1) border.push(plane[y * width + x]);
    return border.reduce((sum, x) => sum + x, 0) / border.length > 127;
  };
  const draw = (planes) => {
    const [, height, width] = input.shape, canvas = $("seen");
    [canvas.width, canvas.height] = [width, height];
    const pen = canvas.getContext("2d"), picture = pen.createImageData(width, height);
    for (let k = 0; k < width * height; ++k) {
      for (let c = 0; c < 3; ++c) picture.data[4 * k + c] = planes[Math.min(c, planes.length - 1)][k];
      picture.data[4 * k + 3] = 255;
    }
    pen.putImageData(picture, 0, 0);
    canvas.hidden = false;
  };
  const ask = async (values) => {
    say("");
    const { got, wrong } = await page.request("predict", { values: Array.from(values) }, (answer) => answer.json());
    if (wrong) return say(wrong);
    const order = got.probabilities.map((p, k) => [p, k]).sort((a, b) => b[0] - a[0]).slice(0, CLASSES);
    $("guess").innerHTML = order.map(([p, k]) => `<li><span>class ${k}</span><span>${page.escape(page.percent(p))}</span><i style="width:${(100 * p).toFixed(1)}px"></i></li>`).join("");
    $("guess").dataset.class = got.class;
  };
  const askPixels = () => {
    const planes = $("invert").checked ? pixels.map((plane) => plane.map((x) => 255 - x)) : pixels;
    draw(planes);
    return ask(planes.flatMap((plane) => Array.from(plane)));
  };
  const take = async (file) => {
    if (!file || !input) return;
    say("");
    if (isRow()) {
      const words = (await file.text()).trim().split(/[\s,;]+/), numbers = words.map(Number);
      if (numbers.some(Number.isNaN)) return say(`${file.name}: '${words[numbers.findIndex(Number.isNaN)].slice(0, 40)}' is not a number`);
      return ask(numbers);
    }
    try {
      pixels = await channelsOf(file);
    } catch {
      return say(`${file.name} is not a picture that this browser can read`);
    }
    if (input.shape[0] === 1) $("invert").checked = isDarkOnLight(pixels);
    return askPixels();
  };

  // Continues the prompt, a few tokens per request, until there are enough, or until the button is pressed again.
  const PER_REQUEST = 16;
  let writing = false;
  const write = async () => {
    if (writing) { writing = false; return; }
    const temperature = Number($("temperature").value), wanted = Math.floor(Number($("tokens").value));
    const wrongly = (words) => page.put($("write-wrong"), words);
    if (!$("temperature").checkValidity() || !$("tokens").checkValidity() || !(wanted >= 1)) return wrongly("temperature is a number from 0 to 100, tokens a whole number from 1");
    wrongly("");
    writing = true;
    page.put($("write"), "Stop");
    const prompt = $("prompt").value, paper = $("written"), seed = Math.floor(Math.random() * 2 ** 52);
    page.put(paper, prompt);
    paper.hidden = false;
    for (let from = { prompt }, drawn = 0; writing && drawn < wanted;) {
      const { got, wrong } = await page.request("generate", { ...from, temperature, seed, tokens: Math.min(PER_REQUEST, wanted - drawn) }, (answer) => answer.json());
      if (wrong) { wrongly(wrong); break; }
      paper.append(got.text);
      [from, drawn] = [{ window: got.window, drawn: got.drawn }, got.drawn];
    }
    writing = false;
    page.put($("write"), "Continue the text");
  };
  const offerWriting = () => {
    $("drop").hidden = true;
    $("writing").hidden = false;
    page.put($("write-words"), `This peer's model continues a text; it sees the last ${input.context} tokens.`);
  };

  // `offers`: request() and helpers of live.js.
  const begin = (offers) => {
    page = offers;
    const box = $("drop"), over = (is) => box.classList.toggle("over", is);
    box.addEventListener("dragover", (event) => { event.preventDefault(); over(true); });
    box.addEventListener("dragleave", () => over(false));
    box.addEventListener("drop", (event) => { event.preventDefault(); over(false); take(event.dataTransfer.files[0]); });
    $("sample").onchange = (event) => { take(event.target.files[0]); event.target.value = ""; };
    $("write").onclick = write;
    $("invert").onchange = () => { if (pixels) askPixels(); };
    $("download").onclick = async () => {
      say("");
      const { got, wrong } = await page.request("model", {}, (answer) => answer.blob());
      if (wrong) return say(wrong);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(got);
      link.download = `${page.name()}.safetensors`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    };
  };
  // The peer may still be building its model: then the section stays hidden until the next connection or second.
  const connected = async () => {
    if (input) return;
    try {
      const answer = await fetch("api/v1/input");
      if (answer.status === 503) return setTimeout(connected, 1000);
      if (!answer.ok) return;
      input = await answer.json();
    } catch { return; }
    if (input.writes) {
      offerWriting();
      $("model").hidden = false;
      return;
    }
    if (input.outside || input.text) {
      page.put($("try-words"), input.text
        ? "The data are token numbers without a tokenizer; the parameters can be downloaded here."
        : "The network is in another program, a trainer; its parameters can be downloaded here.");
      $("drop").querySelector(".controls").hidden = true;
      input = null;
      $("model").hidden = false;
      return;
    }
    page.put($("try-words"), `Drop a sample here to see what this peer's model makes of it: ${shapeWords()}.`);
    $("inverts").hidden = !(input.pixels && input.shape[0] === 1);
    $("sample").accept = isRow() ? ".csv,.txt,text/plain" : "image/*";
    $("model").hidden = false;
  };
  return { begin, connected };
})();
