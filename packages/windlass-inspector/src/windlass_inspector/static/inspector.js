// A cursor over the matrix of a session, and news of a session that goes on. Pages read without it.

const PAGE = 20;
const SMALLEST = 7; // pixels of the box around a cell
const PATIENCE = 150; // milliseconds that the cursor rests before a cell is asked for

const grid = document.getElementById("matrix-grid");
if (grid) {
  moveOver(grid);
}
const notice = document.querySelector(".notice[data-events]");
if (notice) {
  listen(notice);
}

function moveOver(grid) {
  const { cells, calls } = grid.dataset;
  const [rows, columns, first, width, height] = ["rows", "columns", "first", "width", "height"].map(
    (name) => Number(grid.dataset[name]),
  );
  const [across, down, halo, box] = grid.querySelectorAll(".matrix-cursor rect");
  const status = document.getElementById("matrix-cell");
  const keys = document.getElementById("matrix-keys");
  const cell = document.createElement("div");
  const at = { row: 0, column: columns - 1 };
  let asking = new AbortController();
  let waiting = 0;

  becomeGrid();
  grid.addEventListener("keydown", press);
  grid.addEventListener("click", (event) => {
    const area = grid.getBoundingClientRect();
    const x = ((event.clientX - area.left) / area.width) * columns;
    const y = ((event.clientY - area.top) / area.height) * rows;
    moveTo(Math.floor(y), Math.floor(x));
  });
  grid.addEventListener("focus", () => {
    // A press of the mouse brings the focus first: what then scrolls is not what was pressed.
    if (grid.matches(":focus-visible")) {
      moveTo(at.row, at.column);
    }
  });

  function becomeGrid() {
    const row = document.createElement("div");
    row.className = "matrix-row";
    row.setAttribute("role", "row");
    cell.setAttribute("role", "gridcell");
    row.append(cell);
    grid.append(row);
    grid.setAttribute("role", "grid");
    grid.setAttribute("tabindex", "0");
    grid.setAttribute("aria-rowcount", String(rows));
    grid.setAttribute("aria-colcount", String(columns));
    grid.setAttribute("aria-describedby", keys.id);
    keys.hidden = false;
    tell();
  }

  // Where the cursor is, for screen readers.
  function tell() {
    cell.id = `matrix-cell-${at.row + 1}-${first + at.column}`;
    cell.textContent = `message ${at.row + 1}, call ${first + at.column}`;
    cell.parentElement.setAttribute("aria-rowindex", String(at.row + 1));
    cell.setAttribute("aria-colindex", String(at.column + 1));
    grid.setAttribute("aria-activedescendant", cell.id);
  }

  function press(event) {
    if (event.altKey || event.metaKey) {
      return;
    }
    const all = event.ctrlKey; // with it, Home and End go to the first and the last cell
    const { row, column } = at;
    const places = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - PAGE, column],
      PageDown: [row + PAGE, column],
      Home: [all ? 0 : row, 0],
      End: [all ? rows - 1 : row, columns - 1],
    };
    if (event.key === "Enter") {
      location.assign(calls + (first + column));
    } else if (Object.hasOwn(places, event.key)) {
      event.preventDefault();
      moveTo(...places[event.key]);
    }
  }

  function moveTo(row, column) {
    at.row = Math.min(Math.max(row, 0), rows - 1);
    at.column = Math.min(Math.max(column, 0), columns - 1);
    const [x, y] = [at.column * width, at.row * height];
    put(across, 0, y, columns * width, height);
    put(down, x, 0, width, rows * height);
    const [left, top] = [width, height].map((size) => Math.max(0, (SMALLEST - size) / 2));
    for (const each of [halo, box]) {
      put(each, x - left, y - top, width + 2 * left, height + 2 * top);
    }
    box.scrollIntoView({ block: "nearest", inline: "nearest" });
    tell();
    asking.abort();
    clearTimeout(waiting);
    waiting = setTimeout(ask, PATIENCE);
  }

  async function ask() {
    asking = new AbortController();
    const { signal } = asking;
    const query = new URLSearchParams({
      first: String(first),
      message: String(at.row + 1),
      call: String(first + at.column),
    });
    try {
      const answer = await fetch(`${cells}?${query}`, { signal });
      const told = answer.ok ? (await answer.json()).text : `no answer (${answer.status})`;
      status.textContent = told;
    } catch {
      if (!signal.aborted) {
        status.textContent = "The server does not answer.";
      }
    }
  }
}

function put(rect, x, y, width, height) {
  for (const [name, value] of Object.entries({ x, y, width, height })) {
    rect.setAttribute(name, String(value));
  }
}

function listen(notice) {
  const events = new EventSource(notice.dataset.events);
  const span = notice.querySelector("span");
  let rows = 0;
  events.addEventListener("grew", (event) => {
    const { said, new: added } = JSON.parse(event.data);
    rows += added ?? 0;
    const many = rows === 1 ? "1 new row" : `${rows} new rows`;
    span.textContent = rows ? `It is being written: ${many} since this page was made.` : said;
    notice.hidden = false;
  });
  events.addEventListener("trouble", (event) => {
    span.textContent = JSON.parse(event.data).said;
    notice.hidden = false;
    events.close();
  });
}
