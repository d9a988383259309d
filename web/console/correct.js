// Correcting a user's score, on one board or on several.
import { useFetch } from '../page/data.js';
import { t } from '../page/i18n.js';
import { html } from '../page/view.js';
import { number } from './parts.js';

// BoardsField chooses boards. Its value is a list of {name, kind}; the kind is missing of a board
// that was chosen before the dialog.
function BoardsField({ token, value, onChange }) {
  const [{ data }] = useFetch(token, '/v1/boards');
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

const hasDays = ({ kind }) => !kind || kind === 'daily';

// correct corrects a user's score: the subject is {user_id, board, date}, such as a review.
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
  subject: ({ user_id: user }) => user,
  fields: [
    {
      name: 'kind',
      options: () => ['set', 'exclude'].map((kind) => [kind, t(`kind_${kind}`)]),
      hint: 'correctHint',
    },
    { name: 'boards', component: BoardsField },
    { name: 'date', text: 'day', type: 'date', optional: true, hint: 'correctDayHint' },
    { name: 'score', type: 'number', min: 0, shown: ({ kind }) => kind === 'set' },
  ],
  none: 'chooseBoard',
  call: ({ user_id: user }, { kind, boards, date, score, reason }) =>
    boards.map((board) => ({
      label: board.name,
      method: 'POST',
      path: '/v1/admin/corrections',
      body: {
        ...{ user_id: user, kind, board: board.name, reason },
        ...(date && hasDays(board) && { date }),
        ...(kind === 'set' && { score: Number(score) }),
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
