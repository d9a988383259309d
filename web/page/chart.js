// The chart of a history. It is loaded, with uPlot, when a history is opened.
import { addDays, formatDay, formatNumber } from './i18n.js';
import { assetOf } from './storage.js';
import uPlot from './vendor/uPlot.js';

const stylesheetLoaded = new Promise((resolve) => {
  const link = Object.assign(document.createElement('link'), {
    rel: 'stylesheet',
    href: assetOf('vendor/uPlot.css'),
  });
  link.onload = resolve;
  link.onerror = resolve;
  document.head.append(link);
});

const halfDay = 43200;
// labelWidth is the room for the label of a day, in rem.
const labelWidth = 5.625;

// uPlot counts time in seconds.
const secondsOf = (day) => Date.parse(`${day}T00:00:00Z`) / 1000;
const dayOf = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);

// toColumns returns uPlot's columns for every day from the first to the last: the
// times, the scores, the best score, the average. A day without a score is null.
function toColumns({ entries, first, last, stats }) {
  const byDay = new Map(entries.map((entry) => [entry.date, entry]));
  const days = [];
  for (let day = first; day <= last; day = addDays(day, 1)) days.push(day);
  const score = (day) => byDay.get(day)?.score ?? null;
  const isBest = (day) => day === stats.best.date;
  const data = [
    days.map(secondsOf),
    days.map((day) => (isBest(day) ? null : score(day))),
    days.map((day) => (isBest(day) ? score(day) : null)),
    days.map(() => stats.average),
  ];
  return { byDay, days, data };
}

function plotOptions(box, { byDay, days }, onSelect) {
  const color = (name) => getComputedStyle(box).getPropertyValue(name).trim();
  const bars = uPlot.paths.bars({ size: [0.62, 22], radius: 0.3 });
  // All sizes grow with the reader's letters.
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const font = `${0.75 * rem}px ${getComputedStyle(document.body).fontFamily}`;
  // Labels every few days, counted back from the last one.
  const labelledDays = () => {
    const fitting = Math.max(2, Math.floor(box.clientWidth / (labelWidth * rem)));
    const step = Math.max(1, Math.ceil(days.length / fitting));
    return days.filter((_, i) => (days.length - 1 - i) % step === 0).map(secondsOf);
  };
  const axis = { stroke: color('--soft'), font, ticks: { show: false } };
  const noPoints = { points: { show: false } };
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    padding: [0.75 * rem, 1.5 * rem, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, ...noPoints },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
    scales: {
      x: { range: [secondsOf(days[0]) - halfDay, secondsOf(days.at(-1)) + halfDay] },
      y: { range: (_, low, high) => [0, Math.max(high, 10) * 1.08] },
    },
    axes: [
      {
        ...axis,
        size: 1.875 * rem,
        grid: { show: false },
        splits: labelledDays,
        values: (_, splits) => splits.map((seconds) => formatDay(dayOf(seconds))),
      },
      {
        ...axis,
        size: 3.25 * rem,
        grid: { stroke: color('--line'), width: 1 },
        values: (_, splits) => splits.map(formatNumber),
      },
    ],
    series: [
      {},
      { paths: bars, fill: color('--bar'), width: 0, ...noPoints },
      { paths: bars, fill: color('--gold'), width: 0, ...noPoints },
      { stroke: color('--accent'), width: 1.5, dash: [5, 5], ...noPoints },
    ],
    hooks: {
      setCursor: [(plot) => onSelect(byDay.get(days[plot.cursor.idx]) ?? null)],
    },
  };
}

// draw draws the chart of a history into a box, and again when the size of the box or
// the colour scheme changes. It calls onSelect with the entry under the pointer, or
// null. It returns a function that removes the chart.
export function draw(box, { onSelect, ...history }) {
  const columns = toColumns(history);
  let plot;
  let removed = false;
  const redraw = () => {
    if (removed) return;
    plot?.destroy();
    plot = new uPlot(plotOptions(box, columns, onSelect), columns.data, box);
  };
  const darkScheme = matchMedia('(prefers-color-scheme: dark)');
  const sizeObserver = new ResizeObserver(() => {
    if (plot && box.clientWidth !== plot.width) redraw();
  });
  stylesheetLoaded.then(() => {
    redraw();
    sizeObserver.observe(box);
  });
  darkScheme.addEventListener('change', redraw);
  return () => {
    removed = true;
    sizeObserver.disconnect();
    darkScheme.removeEventListener('change', redraw);
    plot?.destroy();
  };
}
