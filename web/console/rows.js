// What is done with rows of a list: choosing, copying and saving them.
import { errorText } from '../page/components.js';
import { save } from '../page/dialog.js';
import { t } from '../page/i18n.js';
import { html, useState } from '../page/view.js';

// useChoice returns {chosen, tick, tickAll}: the rows that are chosen, a checkbox for a row, and
// one for all. Those that leave the list are chosen no more.
export function useChoice(rows, keyOf) {
  const [keys, setKeys] = useState(new Set());
  const chosen = rows.filter((row) => keys.has(keyOf(row)));
  const choose = (list) => setKeys(new Set(list.map(keyOf)));
  const box = (checked, change, label) => html`<input
    type="checkbox"
    aria-label=${label}
    checked=${checked}
    onChange=${(event) => change(event.target.checked)}
  />`;
  const tick = (row) => {
    const change = (on) =>
      choose(on ? [...chosen, row] : chosen.filter((other) => keyOf(other) !== keyOf(row)));
    return html`<label class="pick">${box(keys.has(keyOf(row)), change, t('chooseRow'))}</label>`;
  };
  const tickAll = () => html`<label class="check">
    ${box(chosen.length === rows.length, (on) => choose(on ? rows : []))}${t('chooseAll')}
  </label>`;
  return { chosen, tick, tickAll };
}

// overMany returns an action that does another one to each of some rows: the subject is {rows}.
export const overMany = (action) => ({
  ...action,
  subject: ({ rows }) => t('chosen', { count: rows.length }),
  call: ({ rows }, values) => rows.map((row) => action.call(row, values)),
});

const isFlat = (value) => value === null || typeof value !== 'object';
const textOf = (value) => (isFlat(value) ? String(value ?? '') : JSON.stringify(value));

// linesOf returns rows as lines of fields, the first of which has the names of the API.
const linesOf = (rows) => {
  const names = Object.keys(rows[0]);
  return [names, ...rows.map((row) => names.map((name) => row[name]))];
};

// A text that a spreadsheet would take for a formula, also in full width, gets an apostrophe in front of it.
const unarmed = (value) =>
  typeof value === 'string' && /^\s*[=+\-@＝＋－＠\t\r]/.test(value) ? `'${value}` : textOf(value);
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

// csvOf returns rows as CSV, as RFC 4180 has it.
const csvOf = (rows) =>
  linesOf(rows)
    .map((line) => `${line.map((value) => quoted(unarmed(value))).join(',')}\r\n`)
    .join('');

// tableOf returns rows as lines with tabs, which spreadsheets and messages take.
const tableOf = (rows) =>
  linesOf(rows)
    .map((line) => line.map((value) => unarmed(value).replaceAll(/[\t\r\n]/g, ' ')).join('\t'))
    .join('\n');

// Taking copies and saves rows. If fetchRows is given, the file has the rows that it returns a promise of.
export function Taking({ name, rows, fetchRows, notify }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(tableOf(rows));
      notify(t('rowsCopied', { count: rows.length }));
    } catch {
      notify(t('notCopied'));
    }
  };
  const download = async () => {
    try {
      const saved = fetchRows ? await fetchRows() : rows;
      // The mark lets spreadsheets read the file as UTF-8.
      save(new File(['\ufeff', csvOf(saved)], `${name}.csv`, { type: 'text/csv' }));
    } catch (error) {
      notify(errorText(error));
    }
  };
  return html`<button type="button" class="button small" data-action="copy" onClick=${copy}>
      ${t('copyRows')}
    </button>
    <button type="button" class="button small" data-action="csv" onClick=${download}>${t('asCSV')}</button>`;
}
