// The dialog in which somebody types the total of a day.
import { errorText, Icon } from './components.js';
import { fetchJSON, tryNow, useFetch } from './data.js';
import { Dialog, Question } from './dialog.js';
import { addDays, addTexts, formatLongDay, formatNumber, t, unitOf } from './i18n.js';
import { html, useEffect, useRef, useState } from './view.js';

addTexts({
  en: {
    totalLabel: 'Total of the day',
    totalHint: 'Of the whole day, not only what is new. The largest total of a day counts.',
    totalSoFar: 'So far: {n}.',
    totalSend: 'Add',
    totalError: 'A number from 1 to {n}.',
    totalMuch:
      '{n} is more than twice your best of the last days, {best}. You can’t lower a total.',
    totalFirst: '{n}, is that right? You can’t lower a total.',
    totalChange: 'Change it',
    totalSure: 'Add {n}',
    totalSent: '{n} {unit} sent for {day}.',
    totalLess: '{day} has {n} {unit} already. The largest total counts.',
    totalOffline: 'No connection: this was not confirmed. Try again later.',
  },
  'zh-CN': {
    totalLabel: '当天总数',
    totalHint: '填写全天的总数，而不只是新增的部分。每天以最大的总数为准。',
    totalSoFar: '目前：{n}。',
    totalSend: '记录',
    totalError: '请输入 1 到 {n} 的整数。',
    totalMuch: '{n} 超过了你最近最好成绩 {best} 的两倍。总数不能改小。',
    totalFirst: '确定是 {n} 吗？总数不能改小。',
    totalChange: '修改',
    totalSure: '记录 {n}',
    totalSent: '已提交{day}的 {n} {unit}。',
    totalLess: '{day}已有 {n} {unit}，以最大的总数为准。',
    totalOffline: '无法连接：没有收到确认。请稍后再试。',
  },
});

// totalOf returns the whole number that a text means, with or without separators of thousands, or NaN.
export function totalOf(text) {
  const typed = text.normalize('NFKC').trim();
  return /^\d+$|^\d{1,3}([ ,.'’]\d{3})+$/.test(typed) ? Number(typed.replace(/\D/g, '')) : NaN;
}

// Sure asks whether a total is right.
function Sure({ n, best, ...question }) {
  const box = useRef(null);
  useEffect(() => box.current.querySelector('button').focus(), []);
  const hint = t(best ? 'totalMuch' : 'totalFirst', { n, best: formatNumber(best) });
  return html`<div ref=${box}>
    <${Question} hint=${hint} keep=${t('totalChange')} action=${t('totalSure', { n })} ...${question} />
  </div>`;
}

// TotalDialog sends a total that the viewer types, of a day that takes uploads, at first the one of date. Then it calls
// onSent. It asks before it sends more than twice the best of the last days, as that can't be taken back.
export function TotalDialog({ session: { client }, board, date, notify, onSent, onClose }) {
  const [{ name, open_days: openDays, max_score: most, current, unit }] = useState(board);
  const [day, setDay] = useState(date);
  const [typed, setTyped] = useState('');
  const [wrong, setWrong] = useState('');
  const [asked, ask] = useState(false);
  const [busy, setBusy] = useState(false);
  const input = useRef(null);
  const [{ data }] = useFetch(client, `/v1/boards/${name}/history`);
  const scores = data?.entries ?? [];
  const best = Math.max(0, ...scores.map(({ score }) => score));
  const soFar = scores.find((entry) => entry.date === day)?.score;
  const score = totalOf(typed);
  const n = formatNumber(score);
  useEffect(() => {
    if (!asked) input.current.focus();
  }, [asked]);
  const said = ({ accepted: [{ held }], me }) => {
    if (held) return t('held', { n });
    const counts = Math.max(me?.score ?? 0, score);
    return t(counts > score ? 'totalLess' : 'totalSent', {
      n: formatNumber(counts),
      unit: unitOf(unit || 'steps', counts),
      day: formatLongDay(day),
    });
  };
  const send = async (close) => {
    setBusy(true);
    tryNow();
    try {
      const path = `/v1/boards/${name}/scores?include=me`;
      const sent = await fetchJSON(client, path, { method: 'POST', body: { date: day, score } });
      notify(said(sent));
      onSent();
      close();
    } catch (error) {
      setWrong(error.status === 0 ? t('totalOffline') : errorText(error));
      ask(false);
    }
    setBusy(false);
  };
  const form = (close) => {
    const submit = (event) => {
      event.preventDefault();
      setWrong('');
      if (!(score >= 1 && score <= most)) setWrong(t('totalError', { n: formatNumber(most) }));
      else if (score > 2 * best) ask(true);
      else send(close);
    };
    const option = (_, ago) => {
      const shown = addDays(current.date, -ago);
      return html`<option key=${shown} value=${shown} selected=${shown === day}>${formatLongDay(shown)}</option>`;
    };
    return html`<form class="deletion" onSubmit=${submit} novalidate>
      <label for="total-day">${t('day')}</label>
      <span class="choice">
        <select id="total-day" onChange=${(event) => setDay(event.target.value)}>
          ${Array.from({ length: openDays + 1 }, option)}
        </select>
        <${Icon} name="chevron" />
      </span>
      <label for="total">${t('totalLabel')}</label>
      <input
        id="total"
        ref=${input}
        inputmode="numeric"
        autocomplete="off"
        value=${typed}
        aria-invalid=${wrong ? 'true' : undefined}
        aria-describedby="total-wrong total-hint"
        onInput=${(event) => {
          setTyped(event.target.value);
          setWrong('');
        }}
      />
      <p id="total-wrong" class="wrong" role="alert">${wrong}</p>
      <p id="total-hint" class="hint">
        ${t('totalHint')} ${soFar > 0 && t('totalSoFar', { n: formatNumber(soFar) })}
      </p>
      <div class="buttons">
        <button class="button" type="button" onClick=${close}>${t('close')}</button>
        <button class="button strong" disabled=${busy}>${t('totalSend')}</button>
      </div>
    </form>`;
  };
  const title = t('addTotal', { unit: unitOf(unit || 'steps') });
  return html`<${Dialog} title=${title} onClose=${onClose}>
    ${(close) =>
      asked
        ? html`<${Sure} ...${{ n, best, busy }} close=${() => ask(false)} onConfirm=${() => send(close)} />`
        : form(close)}
  <//>`;
}
