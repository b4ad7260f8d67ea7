// Tells the reader of a session that is being written that it grew. The page reads without it.
const notice = document.querySelector(".notice[data-events]");
if (notice) {
  const events = new EventSource(notice.dataset.events);
  events.addEventListener("grew", (event) => {
    const grown = JSON.parse(event.data).new;
    const text = grown === 1 ? "1 new row" : `${grown} new rows`;
    notice.querySelector("span").textContent = `It is being written: ${text} since this page was made.`;
  });
  events.addEventListener("trouble", () => events.close());
}
