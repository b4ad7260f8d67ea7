// Tells the reader that what the page shows grew since. The page reads without it.
const notice = document.querySelector(".notice[data-events]");
if (notice) {
  const events = new EventSource(notice.dataset.events);
  const tell = (event) => {
    notice.querySelector("span").textContent = JSON.parse(event.data).said;
    notice.hidden = false;
  };
  events.addEventListener("grew", tell);
  events.addEventListener("trouble", (event) => {
    tell(event);
    events.close();
  });
}
