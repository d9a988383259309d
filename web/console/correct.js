// Correcting a user's score, on one board or on several.
import { useFetch } from '../page/data.js';
import { formatDay, formatNumber, t } from '../page/i18n.js';
import { html } from '../page/view.js';
import { number, personText, userPath } from './parts.js';

// BoardsField chooses boards. Its value is a list of {name, kind}; the kind is missing of a board
// that was chosen before the dialog.
function BoardsField({ client, value, onChange }) {
  const [{ data }] = useFetch(client, '/v1/boards');
  const others = ({ name }) => value.filter((board) => board.name !== name);
  const box = ({ name, kind }) => html`<label key=${name} class="check">
    <input
      type="checkbox"
      name=${name}
      checked=${value.some((board) => board.name === name)}
      onChange=${({ target }) => onChange([...others({ name }), ...(target.checked ? [{ name, kind }] : [])])}
    /><bdi>${name}</bdi>
  </label>`;
  return html`<fieldset class="choices">
    <legend>${t('boards')}</legend>
    ${(data?.boards ?? value).map(box)}
  </fieldset>`;
}

// dayText says which score and place a user has on a day of a board; day is undefined without a score.
export const dayText = (date, day) =>
  day
    ? t('dayText', {
        day: formatDay(date),
        score: formatNumber(day.score),
        rank: formatNumber(day.global_rank),
        total: formatNumber(day.global_total),
      })
    : t('dayNone', { day: formatDay(date) });

// DayNow says which score the user has on the chosen day of a board. Older days than the profile
// shows have none here; the preview has it.
function DayNow({ client, user, board, date }) {
  const [{ data }] = useFetch(client, `${userPath(user)}?board=${board}`);
  const day = data?.days.find((other) => other.date === date);
  return html`<p><bdi>${board}</bdi> · ${data ? dayText(date, day) : formatDay(date)}</p>`;
}

// ScoreNow says which score the user has on the chosen day of the chosen boards.
function ScoreNow({ client, subject, values: { boards, date } }) {
  const [{ data }] = useFetch(client, '/v1/boards');
  const isDaily = ({ name }) =>
    data?.boards.some((board) => board.name === name && board.kind === 'daily');
  if (!date) return null;
  return html`<div class="now" aria-live="polite">
    ${boards
      .filter(isDaily)
      .map(
        ({ name }) =>
          html`<${DayNow} key=${name} ...${{ client, user: subject.user_id, board: name, date }} />`,
      )}
  </div>`;
}

const hasDays = ({ kind }) => !kind || kind === 'daily';

// correct corrects a user's score: the subject is {user_id, nickname, board, date}, such as a review.
export const correct = {
  name: 'correct',
  reason: 'required',
  danger: true,
  initial: ({ board, date }) => ({
    kind: 'set',
    boards: board ? [{ name: board }] : [],
    date: date ?? '',
    score: '',
  }),
  subject: personText,
  fields: [
    { name: 'now', component: ScoreNow },
    {
      name: 'kind',
      options: () => ['set', 'exclude'].map((kind) => [kind, t(`kind_${kind}`)]),
      hint: 'correctHint',
    },
    { name: 'boards', component: BoardsField },
    { name: 'date', text: 'day', type: 'date', optional: true, hint: 'correctDayHint' },
    { name: 'score', type: 'number', min: 0, shown: ({ kind }) => kind === 'set' },
    { name: 'message', text: 'message', optional: true, maxlength: 200, hint: 'messageHint' },
  ],
  none: 'chooseBoard',
  call: ({ user_id: user }, { kind, boards, date, score, message, reason }) =>
    boards.map((board) => ({
      label: board.name,
      method: 'POST',
      path: '/v1/admin/corrections',
      body: {
        ...{ user_id: user, kind, board: board.name, reason },
        ...(date && hasDays(board) && { date }),
        ...(kind === 'set' && { score: Number(score) }),
        ...(message && { message }),
      },
    })),
  describe: ({ kind, before, score, date, state }) =>
    [
      t(kind === 'set' ? 'would_set' : date ? 'would_exclude' : 'would_exclude_all', {
        before: number(before) ?? t('noScoreYet'),
        score: number(score),
      }),
      state === 'pending' && t('would_pending'),
    ]
      .filter(Boolean)
      .join(' '),
};
