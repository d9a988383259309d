// Competitions: their definitions, and the standing of each.
import { useFetch } from '../page/data.js';
import { t } from '../page/i18n.js';
import { html } from '../page/view.js';
import { useActions } from './action.js';
import { PagedRows, withoutEmpty } from './list.js';
import {
  boardLink,
  Empty,
  Facts,
  Fetched,
  number,
  Panel,
  person,
  refreshEvery,
  State,
  Table,
  when,
} from './parts.js';

const pathOf = (id) => `/v1/competitions/${encodeURIComponent(id)}`;
const yesNo = () => ['no', 'yes'].map((key) => [key, t(key)]);
const choiceOf = (kind, keys) => () => keys.map((key) => [key, t(`${kind}_${key}`)]);
const measures = choiceOf('measure', ['score', 'goal_days']);
const teamMeasures = choiceOf('team', ['mean', 'sum']);
const optionalNumber = (text) => (text === '' ? undefined : Number(text));

// What is fixed from the first day on.
const fixed = ({ begun }) => !begun;

// definition is what the forms of a competition share.
const definition = {
  fields: [
    {
      name: 'id',
      text: 'competitionID',
      pattern: '[A-Za-z0-9_\\-]{1,64}',
      hint: 'competitionIDHint',
      autocomplete: 'off',
      shown: ({ known }) => !known,
    },
    { name: 'name', maxlength: 64, autocomplete: 'off' },
    { name: 'board', shown: fixed },
    { name: 'from', text: 'firstDay', type: 'date', shown: fixed },
    { name: 'to', text: 'lastDay', type: 'date', shown: fixed },
    { name: 'measure', options: measures, shown: fixed },
    {
      name: 'goal',
      type: 'number',
      min: 1,
      shown: (values) => fixed(values) && values.measure === 'goal_days',
    },
    { name: 'cap', type: 'number', min: 1, optional: true, hint: 'capHint', shown: fixed },
    { name: 'team', text: 'teamMeasure', options: teamMeasures, shown: fixed },
    { name: 'open', text: 'openEntry', options: yesNo },
    { name: 'groups', text: 'groupIDs', optional: true, hint: 'groupIDsHint' },
  ],
  call: (_, values) => {
    const { id, board, name, from, to, measure, team, cap, goal, open, groups } = values;
    const ids = groups.split(/[\s,]+/).filter(Boolean);
    const body = {
      ...{ board, name, from, to, measure, team },
      cap: optionalNumber(cap),
      goal: measure === 'goal_days' ? optionalNumber(goal) : undefined,
      open: open === 'yes',
      groups: ids.length > 0 ? ids : undefined,
    };
    return { method: 'PUT', path: pathOf(id), body: withoutEmpty(body) };
  },
  foresee: (values) => t('would_defineCompetition', values),
};

const define = {
  ...definition,
  name: 'defineCompetition',
  initial: () => ({
    ...{ board: 'steps', measure: 'score', team: 'mean' },
    ...{ cap: '', goal: '', open: 'no', groups: '' },
  }),
};

const replace = {
  ...definition,
  name: 'replaceCompetition',
  initial: (competition) => ({
    ...competition,
    id: competition.competition_id,
    known: true,
    begun: competition.state !== 'planned',
    cap: String(competition.cap ?? ''),
    goal: String(competition.goal ?? ''),
    open: competition.join_code ? 'yes' : 'no',
    groups: '',
  }),
  subject: ({ competition_id: id }) => id,
};

const remove = {
  name: 'deleteCompetition',
  text: 'remove',
  danger: true,
  subject: ({ competition_id: id, name }) => `${name} · ${id}`,
  call: ({ competition_id: id }) => ({ method: 'DELETE', path: pathOf(id) }),
  foresee: () => t('would_deleteCompetition'),
};

const recompute = {
  name: 'recompute',
  reason: 'required',
  subject: ({ competition_id: id, name }) => `${name} · ${id}`,
  call: ({ competition_id: id }, { reason }) => ({
    method: 'POST',
    path: `/v1/admin/competitions/${encodeURIComponent(id)}/recompute`,
    body: { reason },
  }),
  describe: ({ revision }) => t('would_recompute', { n: revision + 1 }),
};

const competitionLink = ({ competition_id: id, name }) =>
  html`<a class="link" href=${`#/competitions/${encodeURIComponent(id)}`}><bdi>${name}</bdi></a>`;

const columns = [
  ['name', competitionLink],
  ['competitionID', (row) => html`<bdi>${row.competition_id}</bdi>`],
  ['board', (row) => boardLink(row.board)],
  ['firstDay', (row) => row.from],
  ['lastDay', (row) => row.to],
  ['state', (row) => html`<${State} value=${row.state} />`],
  ['joinCode', (row) => row.join_code],
];

// CompetitionList shows every competition, and defines another one.
function CompetitionList({ client, notify }) {
  const result = useFetch(client, '/v1/competitions', refreshEvery);
  const [button, dialog] = useActions(client, notify, result[1]);
  const show = ({ competitions: rows }) =>
    rows.length > 0
      ? html`<${Table}
          label=${t('competitions')}
          keyOf=${(row) => row.competition_id}
          end=${(row) => button(remove, row)}
          ...${{ columns, rows }}
        />`
      : html`<${Empty} text="nothingHere" />`;
  return html`<h1 tabindex="-1">${t('competitions')}</h1>
    <p class="about-list">${t('about_competitions')}</p>
    <div class="buttons">${button(define)}</div>
    <${Panel}><${Fetched} result=${result}>${show}<//><//>
    ${dialog}`;
}

// standings are the lists of a competition's standing.
const standings = {
  teams: {
    keyOf: (row) => row.group_id,
    columns: [
      ['place', (row) => number(row.rank)],
      ['name', (row) => html`<bdi>${row.name}</bdi>`],
      ['group', (row) => html`<bdi>${row.group_id}</bdi>`],
      ['score', (row) => number(row.score)],
      ['members', (row) => number(row.members)],
      ['notCounting', (row) => number(row.not_counting)],
    ],
  },
  individuals: {
    keyOf: (row) => row.rank,
    columns: [
      ['place', (row) => number(row.rank)],
      ['user', person],
      ['group', (row) => row.group_id && html`<bdi>${row.group_id}</bdi>`],
      ['score', (row) => number(row.score)],
      ['daysWithScore', (row) => number(row.days)],
      ['reachedAt', (row) => when(row.reached_at)],
    ],
  },
};

// Standing shows a list of the standing; its file has all of it.
function Standing({ client, notify, id, name, part }) {
  const path = `${pathOf(id)}/${part}`;
  const list = { path, rows: 'entries', pageSize: 10, whole: true, ...standings[name] };
  return html`<h2>${t(name)}</h2>
    <${PagedRows} ...${{ client, notify, name, list }} filter=${{}} />`;
}

// Competition is the screen of a competition: its definition and its standing.
function Competition({ client, notify, id }) {
  const result = useFetch(client, pathOf(id), refreshEvery);
  const [button, dialog] = useActions(client, notify, result[1]);
  const show = (competition) => html`<${Panel} title=${t('definition')}>
      <${Facts}
        pairs=${[
          ['competitionID', html`<bdi>${competition.competition_id}</bdi>`],
          ['state', html`<${State} value=${competition.state} />`],
          ['board', boardLink(competition.board)],
          ['firstDay', competition.from],
          ['lastDay', competition.to],
          ['measure', t(`measure_${competition.measure}`)],
          ['goal', number(competition.goal)],
          ['cap', number(competition.cap)],
          ['teamMeasure', t(`team_${competition.team}`)],
          ['joinCode', competition.join_code && html`<bdi>${competition.join_code}</bdi>`],
          ['asOfScores', when(competition.as_of)],
          ['computed', competition.revision || null],
          ['changedSince', when(competition.changed_at)],
          ['created', when(competition.created_at)],
        ]}
      />
      <div class="buttons">
        ${button(replace, competition)} ${competition.revision > 0 && button(recompute, competition)}
      </div>
    <//>
    ${
      competition.as_of
        ? html`<${Standing} name="teams" part="teams" ...${{ client, notify, id }} />
            <${Standing} name="individuals" part="people" ...${{ client, notify, id }} />`
        : html`<${Panel}><${Empty} text="noStanding" /><//>`
    }`;
  return html`<h1 tabindex="-1"><bdi>${result[0].data?.name ?? id}</bdi></h1>
    <p><a class="link" href="#/competitions">${t('back')}</a></p>
    <${Fetched} result=${result}>${show}<//>
    ${dialog}`;
}

// Competitions is the screen of #/competitions and #/competitions/spring.
export function Competitions({ client, notify, path: [id] }) {
  return id
    ? html`<${Competition} ...${{ client, notify, id }} />`
    : html`<${CompetitionList} ...${{ client, notify }} />`;
}
