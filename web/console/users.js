// Users: look one up, and do what can be done about them.
import { useFetch } from '../page/data.js';
import { ErrorNotice } from '../page/components.js';
import { useExport } from '../page/dialog.js';
import { addDays, formatDay, locale, t, tRich } from '../page/i18n.js';
import { html, useEffect, useRef, useState } from '../page/view.js';
import { useActions } from './action.js';
import { correct, dayText } from './correct.js';
import { Chart, chartDays } from './days.js';
import { corrections, lift, reviews } from './lists.js';
import { PagedRows } from './list.js';
import {
  Empty,
  Facts,
  Fetched,
  number,
  Panel,
  person,
  personText,
  refreshEvery,
  Table,
  userLink,
  userPath,
  when,
} from './parts.js';

// erase erases a user for good.
const erase = {
  name: 'erase',
  danger: true,
  reason: 'required',
  subject: personText,
  call: ({ user_id: user }, { reason }) => ({
    method: 'DELETE',
    path: userPath(user),
    body: { reason },
  }),
  describe: () => t('would_erase'),
};

// eraseBranch erases a user with all whom they have brought. One call erases some of them.
const eraseBranch = {
  ...erase,
  name: 'eraseBranch',
  call: (subject, values) => {
    const { body, ...request } = erase.call(subject, values);
    return { ...request, body: { ...body, with_invited: true } };
  },
  describe: ({ left }) => t('would_eraseBranch', { n: number(left) }),
  next: ({ left }, subject, values) => left > 0 && eraseBranch.call(subject, values),
};

const broughtColumns = [
  ['nickname', (row) => html`<bdi>${row.nickname}</bdi>`],
  ['user', (row) => userLink(row.user_id)],
  ['signedUp', (row) => when(row.signed_up_at)],
];

// Brought shows how a user has come and whom they have brought, of users who have signed up here.
function Brought({ client, subject, button }) {
  const result = useFetch(client, `${userPath(subject.user_id)}/came-by`, refreshEvery);
  const show = ({ signed_up_at: at, by, group, brought }) =>
    (at || brought.length > 0) &&
    html`<${Panel} title=${t('brought')}>
      <${Facts}
        pairs=${[
          ['signedUp', when(at)],
          ['broughtBy', by && person(by)],
          ['group', group],
        ]}
      />
      ${
        brought.length > 0 &&
        html`<${Table} label=${t('brought')} columns=${broughtColumns} rows=${brought} keyOf=${(row) => row.user_id} />
          <div class="buttons">${button(eraseBranch, subject)}</div>`
      }
    <//>`;
  return html`<${Fetched} result=${result}>${show}<//>`;
}

// revokeAddress ends the upload address of a user's phone.
const revokeAddress = {
  name: 'revokeAddress',
  danger: true,
  subject: ({ name }) => name,
  call: ({ user, id }) => ({ method: 'DELETE', path: `${userPath(user)}/upload-addresses/${id}` }),
  describe: () => t('would_revokeAddress'),
};

const phoneColumns = [
  ['name', (row) => html`<bdi>${row.name}</bdi>`],
  ['board', (row) => row.board],
  ['timeZone', (row) => row.time_zone],
  ['created', (row) => when(row.created_at)],
  ['lastUsed', (row) => when(row.last_used_at)],
  ['lastResult', ({ last_result: last }) => last && lastText(last)],
];

const lastText = ({ date, score, code }) => (date ? `${formatDay(date)}: ${number(score)}` : code);

// Phones lists the addresses of a user's phones, and revokes them.
function Phones({ client, notify, user }) {
  const result = useFetch(client, `${userPath(user)}/upload-addresses`, refreshEvery);
  const [button, dialog] = useActions(client, notify, result[1]);
  return html`<${Fetched} result=${result}>
      ${({ upload_addresses: rows }) => html`<${Part}
        title="phones"
        rows=${rows}
        columns=${phoneColumns}
        keyOf=${byId}
        end=${(row) => button(revokeAddress, { ...row, user })}
      />`}
    <//>
    ${dialog}`;
}

// Export downloads everything that is stored about a user.
function Export({ client, user, notify }) {
  const onSaved = () => notify(t('exported'));
  const { busy, error, download } = useExport(client, `${userPath(user)}/export`, onSaved);
  return html`<button
      class="button small"
      data-action="export"
      disabled=${busy}
      onClick=${download}
    >
      ${t('export')}
    </button>
    ${error && html`<${ErrorNotice} error=${error} retry=${download} />`}`;
}

// Explained says why a user's score of a day is what it is.
function Explained({ client, user, board, date }) {
  const path = `${userPath(user)}/explain?board=${board}&date=${date}`;
  const result = useFetch(client, path, refreshEvery);
  const timed = ({ score, reached_at: at }) =>
    score === null ? t('noScoreYet') : [number(score), ' · ', when(at)];
  const decided = ({ kind, since, reason, message }) => [
    ...[t(`kind_${kind}`), ' · ', when(since), ' · ', reason],
    message && ` · ${t('message')}: ${message}`,
  ];
  const heldText = ({ state, reason, message, ...held }) => [
    ...[timed(held), ' · ', t(`state_${state}`), reason && ` · ${reason}`],
    message && ` · ${t('message')}: ${message}`,
  ];
  return html`<${Fetched} result=${result}>
    ${(why) => html`<${Facts}
      pairs=${[
        ['counts', timed(why)],
        ['reported', why.reported && timed(why.reported)],
        ['afterRun', why.pending && timed(why.pending)],
        ['heldScore', why.held && heldText(why.held)],
        ['correction', why.correction && decided(why.correction)],
        ['openUntil', when(why.open_until)],
        ['state_archived', t(why.archived ? 'yes' : 'no')],
      ]}
    />`}
  <//>`;
}

// Days shows a user's days on a board, and corrects one of them.
function Days({ client, user, board, days, partial, button }) {
  const [result] = useFetch(client, '/v1/boards');
  const [picked, setPicked] = useState(null);
  const definition = result.data?.boards.find(({ name }) => name === board);
  const today = definition?.current.date ?? new Date().toISOString().slice(0, 10);
  const latest = days[0]?.date > today ? days[0].date : today;
  const chosen = picked ?? latest;
  const day = days.find(({ date }) => date === chosen);
  return html`<${Chart} ...${{ days, latest, picked: chosen, onPick: setPicked }} />
    ${partial && html`<p class="hint">${t('partial')}</p>`}
    <p aria-live="polite">${chosen > addDays(latest, -chartDays) && dayText(chosen, day)}</p>
    <div class="labelled">
      <label for="day">${t('day')}</label>
      <input
        id="day"
        type="date"
        max=${latest}
        value=${chosen}
        onChange=${({ target }) => target.value && setPicked(target.value)}
      />
    </div>
    ${
      definition &&
      html`<${Explained}
        key=${[chosen, day?.score]}
        ...${{ client, board }}
        user=${user.user_id}
        date=${chosen}
      />`
    }
    <div class="buttons">
      ${button(correct, { ...user, board, date: chosen }, t('correctDay', { day: formatDay(chosen) }))}
    </div>`;
}

// BoardChoice chooses the daily board whose days are shown.
function BoardChoice({ client, board, onChange }) {
  const [{ data }] = useFetch(client, '/v1/boards');
  const daily = data?.boards.filter(({ kind }) => kind === 'daily') ?? [];
  const option = ({ name }) => html`<option key=${name} value=${name}>${name}</option>`;
  return html`<div class="labelled">
    <label for="board">${t('board')}</label>
    <select id="board" value=${board} onChange=${(event) => onChange(event.target.value)}>
      ${daily.map(option)}
    </select>
  </div>`;
}

function Profile({ user }) {
  const { privacy, requests } = user;
  return html`<${Facts}
    pairs=${[
      ['user', html`<bdi>${user.user_id}</bdi>`],
      ['nickname', user.nickname && html`<bdi>${user.nickname}</bdi>`],
      ['created', when(user.created_at)],
      ['friends', number(user.friends)],
      ['requestsReceived', number(requests.received)],
      ['requestsSent', number(requests.sent)],
      ['hidden', t(privacy.hidden ? 'yes' : 'no')],
      ['hiddenFrom', number(privacy.hidden_from)],
      ['muted', number(privacy.muted)],
      ['blocked', number(privacy.blocked)],
    ]}
  />`;
}

const groupColumns = [
  ['group', (row) => row.group_id],
  ['name', (row) => row.name],
  ['members', (row) => number(row.members)],
  ['owner', (row) => t(row.owner ? 'yes' : 'no')],
];

// Part is a list of a user's things, with actions on its rows.
function Part({ title, rows, columns, keyOf, end }) {
  return html`<${Panel} title=${t(title)}>
    ${
      rows.length > 0
        ? html`<${Table} label=${t(title)} ...${{ columns, rows, keyOf, end }} />`
        : html`<${Empty} text="nothingHere" />`
    }
  <//>`;
}

const withoutUser = ([text]) => text !== 'user';
const byId = ({ id }) => id;

// User is the screen of a user.
function User({ client, notify, id }) {
  const [boards] = useFetch(client, '/v1/boards');
  const [chosen, setBoard] = useState('');
  const board = chosen || boards.data?.boards.find(({ kind }) => kind === 'daily')?.name;
  const query = board ? `?board=${board}` : '';
  const result = useFetch(
    client,
    boards.state === 'loading' ? null : userPath(id) + query,
    refreshEvery,
  );
  const [button, dialog] = useActions(client, notify, result[1]);
  const { nickname } = result[0].data ?? {};
  const subject = { user_id: id, nickname };
  useEffect(() => {
    if (nickname) document.title = `${nickname} · Stepboard`;
  }, [nickname, locale]);
  const show = (user) =>
    user.exists
      ? html`<${Panel} title=${t('profile')}>
            <${Profile} user=${user} />
            <div class="buttons">
              <${Export} ...${{ client, user: id, notify }} />
              ${button(correct, { ...subject, board, date: user.days[0]?.date })}
              ${button(erase, subject)}
            </div>
          <//>
          ${
            board &&
            html`<${Panel} title=${t('lastDays')}>
              <${BoardChoice} ...${{ client, board, onChange: setBoard }} />
              <${Days}
                key=${board}
                ...${{ client, user: subject, board, button }}
                days=${user.days}
                partial=${user.partial}
              />
            <//>`
          }
          <${Part}
            title="corrections"
            rows=${user.corrections}
            columns=${corrections.columns.filter(withoutUser)}
            keyOf=${byId}
            end=${(row) => lift.offered(row) && button(lift, row)}
          />
          <${Part}
            title="reviews"
            rows=${user.reviews}
            columns=${reviews.columns.filter(withoutUser)}
            keyOf=${byId}
            end=${(row) => reviews.actions.map((action) => button(action, row))}
          />
          <${Brought} ...${{ client, subject, button }} />
          <${Phones} ...${{ client, notify, user: id }} />
          <${Part} title="groups" rows=${user.groups} columns=${groupColumns} keyOf=${(row) => row.group_id} />`
      : null;
  const erasing = ({ erasure }) =>
    erasure &&
    html`<${Panel}>
      <p role="status">${tRich('erasing', { time: when(erasure.begun_at) })}</p>
    <//>`;
  const [{ error, data }] = result;
  const missing = !data && error?.code === 'user_not_found';
  return html`<h1 tabindex="-1"><bdi>${nickname || id}</bdi></h1>
    <p class="label user-id"><bdi>${id}</bdi></p>
    <${Find} />
    ${
      missing
        ? html`<${Panel}><${Empty} text="noSuchUser" /><//>`
        : html`<${Fetched} result=${result}>${(user) => [erasing(user), show(user)]}<//>`
    }
    ${dialog}`;
}

// foundAddress leads to the users of a name or an id.
const foundAddress = (text) => `#/users/named/${encodeURIComponent(text)}`;

// Find asks for a name or a user id.
function Find({ initial = '', focused }) {
  const [text, setText] = useState(initial);
  const field = useRef(null);
  useEffect(() => {
    if (focused) field.current.focus();
  }, []);
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) location.hash = foundAddress(text.trim());
  };
  return html`<form class="filters" role="search" onSubmit=${submit}>
    <div class="labelled">
      <label for="user">${t('nameOrID')}</label>
      <input
        id="user"
        ref=${field}
        data-first=${focused}
        required
        maxlength="128"
        autocomplete="off"
        spellcheck=${false}
        value=${text}
        onInput=${(event) => setText(event.target.value)}
      />
    </div>
    <button class="button strong">${t('find')}</button>
  </form>`;
}

const longestName = 64;

const usersByName = {
  path: '/v1/admin/users',
  rows: 'users',
  pageSize: 20,
  keyOf: (row) => row.user_id,
  columns: [
    ['nickname', (row) => html`<bdi>${row.nickname}</bdi>`],
    ['user', (row) => userLink(row.user_id)],
    ['friends', (row) => number(row.friends)],
    ['created', (row) => when(row.created_at)],
  ],
};

// Found shows the user of an id, and the users whose names begin with the text. If it is only an
// id, it leads on to the user.
function Found({ client, notify, text }) {
  const [named] = useFetch(
    client,
    text.length <= longestName
      ? `/v1/admin/users?${new URLSearchParams({ name: text, limit: 1 })}`
      : null,
  );
  const isID = /^[!-~]{1,128}$/.test(text);
  const [exact] = useFetch(client, isID ? userPath(text) : null);
  const nobodyNamed = text.length > longestName || named.data?.users.length === 0;
  const leads = nobodyNamed && Boolean(exact.data);
  useEffect(() => {
    if (leads) location.replace(`#/users/${encodeURIComponent(text)}`);
  }, [leads]);
  const nobody = nobodyNamed && (!isID || exact.error?.code === 'user_not_found');
  return html`<h1 tabindex="-1">${t('users')}</h1>
    <${Find} initial=${text} />
    ${exact.data && html`<p>${t('userID')}: ${userLink(text)}</p>`}
    ${
      nobody
        ? html`<${Panel}><${Empty} text="noSuchUser" /><//>`
        : !nobodyNamed &&
          html`<${PagedRows} ...${{ client, notify, name: 'users', list: usersByName }} filter=${{ name: text }} />`
    }`;
}

// Users is the screen of #/users, #/users/1001 and #/users/named/mei.
export function Users({ client, notify, path: [id, text] }) {
  if (id === 'named' && text) return html`<${Found} ...${{ client, notify, text }} />`;
  if (id) return html`<${User} ...${{ client, notify, id }} />`;
  return html`<h1 tabindex="-1">${t('users')}</h1>
    <p class="about-list">${t('about_users')}</p>
    <${Find} focused=${id === ''} />`;
}
