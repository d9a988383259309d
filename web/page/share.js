// A picture of a day to share: the viewer's place and score, and the first three.
import { Dialog, save } from './dialog.js';
import { avatarHue, initials, nameOf } from './components.js';
import { formatLongDay, formatNumber, formatRank, stripBidi, t, unitOf } from './i18n.js';
import { html, useEffect, useRef } from './view.js';

const width = 1080;
const height = 1350;
const margin = 90;
const white = '#fff';
const soft = '#cfeadd';
const medals = ['#ffd35c', '#d5dce0', '#edb88b'];

// fit returns a text that is not wider than a number of pixels, with an ellipsis if it is cut.
function fit(context, text, most) {
  if (context.measureText(text).width <= most) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join('')}…`).width > most)
    letters.pop();
  return `${letters.join('')}…`;
}

// write writes a text on one line of the card, at most as wide as most. It begins at x,
// unless align says that it ends there or is centred.
function write(context, text, { x = margin, y, size, ...more }) {
  const { weight = 600, colour = white, align = 'left', most = width - 2 * margin } = more;
  const { fontFamily } = getComputedStyle(document.documentElement);
  context.font = `${weight} ${size}px ${fontFamily}`;
  context.fillStyle = colour;
  context.textAlign = align;
  context.fillText(fit(context, text, most), x, y);
}

function disc(context, x, y, radius, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}

// drawLine draws one of the first three, at a height of the card.
function drawLine(context, entry, y) {
  const place = { x: margin + 40, size: 42, weight: 700, colour: '#402c00', align: 'center' };
  disc(context, place.x, y, 40, medals[entry.rank - 1]);
  write(context, String(entry.rank), { ...place, y: y + 15 });
  const text = initials(entry.nickname, entry.user_id);
  const person = { x: margin + 160, size: text.length > 2 ? 32 : 40, align: 'center' };
  disc(context, person.x, y, 50, `hsl(${avatarHue(entry.user_id)} 42% 34%)`);
  write(context, text, { ...person, y: y + 14 });
  const name = stripBidi(nameOf(entry));
  write(context, name, { x: margin + 240, y: y + 16, size: 46, most: 420 });
  const score = formatNumber(entry.score);
  write(context, score, { x: width - margin, y: y + 16, size: 46, weight: 700, align: 'right' });
}

// draw draws the card of a ranking in which the viewer has a place.
function draw(canvas, { ranking, label, unit }) {
  const context = canvas.getContext('2d');
  const { me, total, entries, date } = ranking;
  const ground = context.createLinearGradient(0, 0, width, height);
  ground.addColorStop(0, '#064a31');
  ground.addColorStop(1, '#0a7449');
  context.fillStyle = ground;
  context.fillRect(0, 0, width, height);
  write(context, 'Stepboard', { y: 150, size: 48, weight: 700 });
  write(context, formatLongDay(date), { y: 215, size: 40, colour: soft });
  write(context, formatRank(me.rank), { y: 420, size: 210, weight: 750 });
  const outOf = t('outOf', { total: formatNumber(total) });
  write(context, `${outOf} · ${label}`, { y: 480, size: 44, colour: soft });
  write(context, `${formatNumber(me.score)} ${unitOf(unit, me.score)}`, {
    y: 620,
    size: 80,
    weight: 700,
  });
  context.fillStyle = '#ffffff2e';
  context.fillRect(margin, 700, width - 2 * margin, 3);
  entries.slice(0, medals.length).forEach((entry, i) => drawLine(context, entry, 820 + i * 150));
  write(context, stripBidi(nameOf(me)), { y: height - 80, size: 40, colour: soft });
}

const blobOf = (canvas) => new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));

// ShareDialog shows the picture before it is shared. Where pictures can't be shared, it can
// be saved.
export function ShareDialog({ circle, ranking, unit = 'steps', onClose }) {
  const canvas = useRef(null);
  const shown = useRef(ranking).current; // the picture stays as it is while the ranking changes
  useEffect(() => draw(canvas.current, { ranking: shown, label: circle.label, unit }), []);
  const probe = new File([''], 'stepboard.png', { type: 'image/png' });
  const canShare = Boolean(navigator.canShare?.({ files: [probe] }));
  const send = async () => {
    const name = `stepboard-${shown.date}.png`;
    const file = new File([await blobOf(canvas.current)], name, { type: 'image/png' });
    if (canShare) await navigator.share({ files: [file] }).catch(() => {});
    else save(file);
  };
  const label = t('shareLabel', {
    place: formatRank(shown.me.rank),
    total: formatNumber(shown.total),
    n: formatNumber(shown.me.score),
    unit: unitOf(unit, shown.me.score),
    names: shown.entries
      .slice(0, medals.length)
      .map((entry) => stripBidi(nameOf(entry)))
      .join(', '),
  });
  return html`<${Dialog} title=${t('shareDay')} onClose=${onClose}>
    ${(close) => html`<canvas
        class="share-card"
        ref=${canvas}
        width=${width}
        height=${height}
        role="img"
        aria-label=${label}
      ></canvas>
      <p class="hint">${t('shareHint')}</p>
      <div class="buttons">
        <button class="button" onClick=${close}>${t('close')}</button>
        <button class="button strong" onClick=${send}>${t(canShare ? 'sharePicture' : 'savePicture')}</button>
      </div>`}
  <//>`;
}
