// The dialog that explains one's own score of a day.
import { ErrorNotice } from './components.js';
import { useFetch } from './data.js';
import { Dialog } from './dialog.js';
import { addTexts, formatDateTime, formatNumber, t, unitOf } from './i18n.js';
import { html } from './view.js';

addTexts({
  en: {
    whyCounts: 'What counts: {n} {unit}, reached {time}.',
    whyNone: 'No score counts on this day.',
    whyHighest: 'It is the highest total that was sent for the day, not the last one.',
    whyLowest: 'It is the lowest score that was sent for the day.',
    whyReported: 'What was sent: {n} {unit}, reached {time}.',
    whyHeld_open: '{n} {unit} wait until somebody has looked at them, as that is unusually much.',
    whyHeld_released:
      '{n} {unit} were unusually much, and count since somebody has looked at them.',
    whyHeld_rejected: '{n} {unit} were unusually much, and do not count.',
    why_set: 'The operators changed the score, {time}.',
    why_exclude: 'The operators took you off the ranking, {time}.',
    whyNext: 'When the day has been ranked anew, {n} {unit} will count.',
    whyNextNone: 'When the day has been ranked anew, no score will count.',
    whyOpen: 'The day takes uploads until {time}.',
    whyClosed: 'The day took uploads until {time}. Only the operators can change it.',
  },
  'zh-CN': {
    whyCounts: '计入成绩：{n} {unit}，达成于 {time}。',
    whyNone: '这一天没有计入成绩。',
    whyHighest: '这是当天上传的最高总数，而不是最后一次上传的。',
    whyLowest: '这是当天上传的最低成绩。',
    whyReported: '上传的成绩：{n} {unit}，达成于 {time}。',
    whyHeld_open: '{n} {unit} 异常偏高，等待管理员查看。',
    whyHeld_released: '{n} {unit} 曾异常偏高，管理员查看后已计入。',
    whyHeld_rejected: '{n} {unit} 异常偏高，不计入成绩。',
    why_set: '管理员于 {time} 修改了成绩。',
    why_exclude: '管理员于 {time} 将你移出了排行。',
    whyNext: '重新排名后将计入 {n} {unit}。',
    whyNextNone: '重新排名后将没有计入成绩。',
    whyOpen: '这一天可以上传到 {time}。',
    whyClosed: '这一天的上传已于 {time} 截止，只有管理员可以更改。',
  },
});

// sentencesOf returns what an explanation says, as a list of texts.
function sentencesOf(why, unit, low) {
  const said = (key, { score, reached_at: at }) =>
    t(key, { n: formatNumber(score), unit: unitOf(unit, score), time: at && formatDateTime(at) });
  const { correction, held, pending, reported } = why;
  const counts = why.score !== null;
  return [
    counts ? said('whyCounts', why) : t('whyNone'),
    counts && !correction && !reported && t(low ? 'whyLowest' : 'whyHighest'),
    reported && said('whyReported', reported),
    held && said(`whyHeld_${held.state}`, held),
    held?.message,
    correction && t(`why_${correction.kind}`, { time: formatDateTime(correction.since) }),
    correction?.message,
    pending && (pending.score === null ? t('whyNextNone') : said('whyNext', pending)),
    t(why.final ? 'whyClosed' : 'whyOpen', { time: formatDateTime(why.open_until) }),
  ].filter(Boolean);
}

// WhyDialog explains the score of a session's user on a day. low says that the lowest score is first.
export function WhyDialog({
  session: { client, board },
  date,
  unit = 'steps',
  low,
  title,
  onClose,
}) {
  const [{ data, error }, retry] = useFetch(client, `/v1/boards/${board}/me/explain?date=${date}`);
  const sentence = (text, i) => html`<p key=${i} dir="auto">${text}</p>`;
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${(close) => html`<div class="why-text" aria-live="polite">
        ${error && html`<${ErrorNotice} error=${error} retry=${retry} />`}
        ${data && sentencesOf(data, unit, low).map(sentence)}
      </div>
      <div class="buttons"><button class="button strong" onClick=${close}>${t('close')}</button></div>`}
  <//>`;
}
