// The form of a new inbox: shows what belongs to the choices that were made, and makes secrets.

import { announce } from "./text.js";

const SECRET_BYTES = 24;

const kind = document.getElementById("f-kind");
const verifier = document.getElementById("f-verifier");
const secret = document.getElementById("f-secret");
const secretPart = document.getElementById("secret-part");
const make = document.getElementById("make-secret");

function show() {
  const isWebhook = kind.value === "webhook";
  for (const part of document.querySelectorAll("[data-only]")) part.hidden = part.dataset.only !== kind.value;
  for (const hint of document.querySelectorAll("[data-for]")) hint.hidden = hint.dataset.for !== verifier.value;
  secretPart.hidden = !isWebhook || verifier.value === "none";
  if (secretPart.hidden) secret.value = "";
}

make.addEventListener("click", () => {
  const random = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  secret.value = btoa(String.fromCharCode(...random));
  secret.type = "text";
  secret.select();
  announce("A secret was generated");
});
kind.addEventListener("change", show);
verifier.addEventListener("change", show);
show();
