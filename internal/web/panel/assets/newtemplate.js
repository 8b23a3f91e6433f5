// The pictures of the built-in designs show the chosen paper, color and language.

const paper = document.getElementById("design_paper");
const accent = document.getElementById("design_accent");
const own = document.getElementById("own_accent");
const language = document.getElementById("design_language");
const pictures = [...document.querySelectorAll("[data-design]")];
let timer = 0;
const show = () => {
  for (const picture of pictures) {
    const address = new URL(picture.src);
    address.searchParams.set("paper", paper.value);
    address.searchParams.set("language", language.value);
    if (own.checked) address.searchParams.set("accent", accent.value.slice(1));
    else address.searchParams.delete("accent");
    if (picture.src !== address.href) picture.src = address.href;
  }
};
accent.addEventListener("input", () => { own.checked = true; });
for (const control of [paper, accent, own, language]) {
  control.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(show, 300);
  });
}
