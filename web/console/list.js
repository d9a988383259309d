// A list of the console: filters, pages, and what can be done.
import { useFetch } from '../page/data.js';
import { t, tRich } from '../page/i18n.js';
import { fetchAll } from '../page/pages.js';
import { html, useState } from '../page/view.js';
import { useActions } from './action.js';
import { overMany, Taking, useChoice } from './rows.js';
import { Empty, Fetched, formatAt, Panel, refreshEvery, Table } from './parts.js';

const pageSize = 50;

// Filter is a field by which a list is filtered.
function Filter({ client, filter, value, onChange }) {
  const { name, text = name, options: known, boards, check, always, ...rest } = filter;
  const [{ data }] = useFetch(client, boards ? '/v1/boards' : null);
  const id = `filter-${name}`;
  const names = new Set([...(data?.boards.map((board) => board.name) ?? []), value]);
  const options = boards ? [...names].filter(Boolean) : known;
  if (check) {
    const tick = (event) => onChange(event.target.checked ? 'true' : '');
    return html`<label class="check">
      <input type="checkbox" id=${id} checked=${value === 'true'} onChange=${tick} />${t(text)}
    </label>`;
  }
  // A text counts once it is complete: when Enter is pressed, or the field is left.
  const shared = { id, value, onChange: (event) => onChange(event.target.value.trim()) };
  const option = (key) => html`<option key=${key} value=${key}>
    ${filter.plain || boards ? key : t(`state_${key}`)}
  </option>`;
  return html`<div class="labelled">
    <label for=${id}>${t(text)}</label>
    ${
      options
        ? html`<select ...${shared}>
            ${!always && html`<option value="">${t('all')}</option>`}
            ${options.map(option)}
          </select>`
        : html`<input ...${rest} ...${shared} />`
    }
  </div>`;
}

// withoutEmpty leaves out the fields that are empty or missing; 0 and false stay.
export const withoutEmpty = (values) =>
  Object.fromEntries(
    Object.entries(values).filter(([, value]) => value !== '' && value !== undefined),
  );

// ListPage shows the rows of a page, and what can be done with them, or with those of them that
// are chosen. button is that of useActions. The file of a list that is whole has all of its pages.
function ListPage({ client, name, list, rows, filter, button, notify }) {
  const { columns, actions = [], together = [], keyOf = ({ id }) => id } = list;
  const { chosen, tick, tickAll } = useChoice(rows, keyOf);
  const offered = (action, row) => !action.offered || action.offered(row);
  const end =
    actions.length > 0 &&
    ((row) =>
      actions.filter((action) => offered(action, row)).map((action) => button(action, row)));
  const many = (action) => {
    const subjects = chosen.filter((row) => offered(action, row));
    return subjects.length > 0 && button(overMany(action), { rows: subjects });
  };
  const fetchRows =
    list.whole && chosen.length === 0 && (() => fetchAll(client, list.path, list.rows));
  return html`<${Table} label=${t(name)} ...${{ columns, rows, keyOf, end, tick }} />
    <div class="buttons" role="group" aria-label=${t('rows')}>
      ${tickAll()}
      ${chosen.length > 0 && html`<span>${t('chosen', { count: chosen.length })}</span>`}
      ${actions.filter((action) => action.many).map(many)}
      <${Taking} rows=${chosen.length > 0 ? chosen : rows} ...${{ name, fetchRows, notify }} />
      ${chosen.length === 0 && together.map((action) => button(action, { filter, rows }))}
    </div>`;
}

// Rows shows a page of a list by a fixed filter, and what can be done with its rows.
export function Rows({ client, notify, name, list, filter, cursor, onPage }) {
  const query = new URLSearchParams({ limit: list.pageSize ?? pageSize, ...filter });
  if (cursor) query.set('cursor', cursor);
  const [result, retry] = useFetch(client, `${list.path}?${query}`, refreshEvery);
  const [button, dialog] = useActions(client, notify, retry);
  const page = ({ [list.rows]: rows }) =>
    rows.length > 0
      ? html`<${ListPage} ...${{ client, name, list, rows, filter, button, notify }} />`
      : html`<${Empty} text="nothingHere" />`;
  const refused = list.forbidden && result.error?.code === 'forbidden';
  return html`<${Panel}>
      ${
        refused
          ? html`<${Empty} text=${list.forbidden} />`
          : html`<${Fetched} result=${[result, retry]}>${page}<//>`
      }
    <//>
    ${onPage && onPage(result)}${dialog}`;
}

// PagedRows shows a list by a filter, page by page.
export function PagedRows({ filter, ...shared }) {
  const [cursors, setCursors] = useState([]); // of this page and those before it
  const turn = (text, next) => html`<button
    key=${text}
    class="button"
    onClick=${() => setCursors(next)}
  >
    ${t(text)}
  </button>`;
  const pages = ({ data, at }) => html`<div class="buttons pages">
    ${cursors.length > 0 && turn('previous', cursors.slice(0, -1))}
    ${data?.next_cursor && turn('next', [...cursors, data.next_cursor])}
    ${at && html`<span class="label">${tRich('asOf', { time: formatAt(at) })}</span>`}
  </div>`;
  return html`<${Rows} ...${shared} filter=${filter} cursor=${cursors.at(-1)} onPage=${pages} />`;
}

// List is the screen of a list.
export function List({ client, notify, name, list, initial }) {
  const [values, setValues] = useState(initial);
  const filter = withoutEmpty(values);
  const field = (about) => html`<${Filter}
    key=${about.name}
    client=${client}
    filter=${about}
    value=${values[about.name] ?? ''}
    onChange=${(value) => setValues({ ...values, [about.name]: value })}
  />`;
  return html`<h1 tabindex="-1">${t(name)}</h1>
    <p class="about-list">${t(`about_${name}`)}</p>
    ${
      list.filters.length > 0 &&
      html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
        ${list.filters.map(field)}
      </form>`
    }
    <${PagedRows} key=${JSON.stringify(filter)} ...${{ client, notify, name, list, filter }} />`;
}
