// The chart of a history. Loaded, with uPlot, once a history is looked at.
import { addDays, number, shortDay } from './i18n.js';
import uPlot from './vendor/uPlot.js';

const styled = new Promise((resolve) => {
  const link = Object.assign(document.createElement('link'), {
    rel: 'stylesheet',
    href: '/assets/vendor/uPlot.css',
  });
  link.onload = resolve;
  link.onerror = resolve;
  document.head.append(link);
});

const seconds = (day) => Date.parse(`${day}T00:00:00Z`) / 1000;
const dayOf = (second) => new Date(second * 1000).toISOString().slice(0, 10);

// columns are the days from the first to the last, with gaps where there is no
// score: all days, the best one, the average.
function columns(entries, numbers) {
  const byDay = new Map(entries.map((entry) => [entry.date, entry]));
  const days = [];
  for (let day = entries.at(-1).date; day <= entries[0].date; day = addDays(day, 1)) days.push(day);
  const score = (day) => byDay.get(day)?.score ?? null;
  return {
    byDay,
    days,
    data: [
      days.map(seconds),
      days.map((day) => (day === numbers.best.date ? null : score(day))),
      days.map((day) => (day === numbers.best.date ? score(day) : null)),
      days.map(() => numbers.average),
    ],
  };
}

function options(box, { byDay, days }, choose) {
  const color = (name) => getComputedStyle(box).getPropertyValue(name).trim();
  const bars = uPlot.paths.bars({ size: [0.62, 22], radius: 0.3 });
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  const half = 43200;
  return {
    width: box.clientWidth,
    height: box.clientHeight,
    padding: [12, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    tzDate: (second) => uPlot.tzDate(new Date(second * 1000), 'Etc/UTC'),
    scales: {
      x: { range: [seconds(days[0]) - half, seconds(days.at(-1)) + half] },
      y: { range: (_, low, high) => [0, Math.max(high, 10) * 1.08] },
    },
    axes: [
      {
        stroke: color('--soft'),
        font,
        size: 30,
        grid: { show: false },
        ticks: { show: false },
        splits: () => {
          const every = Math.max(
            1,
            Math.ceil(days.length / Math.max(2, Math.floor(box.clientWidth / 90))),
          );
          return days.filter((_, i) => (days.length - 1 - i) % every === 0).map(seconds);
        },
        values: (_, splits) => splits.map((second) => shortDay(dayOf(second))),
      },
      {
        stroke: color('--soft'),
        font,
        size: 52,
        ticks: { show: false },
        grid: { stroke: color('--line'), width: 1 },
        values: (_, splits) => splits.map(number),
      },
    ],
    series: [
      {},
      { paths: bars, fill: color('--bar'), width: 0, points: { show: false } },
      { paths: bars, fill: color('--gold'), width: 0, points: { show: false } },
      { stroke: color('--accent'), width: 1.5, dash: [5, 5], points: { show: false } },
    ],
    hooks: {
      setCursor: [
        (plot) => {
          const entry = byDay.get(days[plot.cursor.idx]);
          choose(entry ?? null);
        },
      ],
    },
  };
}

// draw puts the chart in the box, keeps it as large as that and in the colours
// of the page, and answers how to remove it.
export function draw(box, entries, numbers, choose) {
  const table = columns(entries, numbers);
  let plot;
  let gone = false;
  const make = () => {
    if (gone) return;
    plot?.destroy();
    plot = new uPlot(options(box, table, choose), table.data, box);
  };
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const size = new ResizeObserver(() => {
    if (plot && box.clientWidth !== plot.width) make();
  });
  styled.then(() => {
    make();
    size.observe(box);
  });
  dark.addEventListener('change', make);
  return () => {
    gone = true;
    size.disconnect();
    dark.removeEventListener('change', make);
    plot?.destroy();
  };
}
