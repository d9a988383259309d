// What the screens show of the service's answers.
const { place, problem, words } = require('./texts.js');

const formatted = (score) => String(score).replace(/\B(?=(\d{3})+$)/g, ',');

const COLORS = 6;

/** rowOf returns a line of a ranking, as parts/rows.wxml shows it. */
function rowOf({ rank, nickname, avatar_url: picture, score, user_id: id }, mine) {
  const name = nickname || words.nameless;
  return {
    id,
    rank,
    name,
    picture,
    mine,
    score: formatted(score),
    initial: [...name][0],
    color: [...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % COLORS,
  };
}

/** rankingOf returns the data of a ranking: rows, own and the place. */
function rankingOf({ entries, me, total }) {
  return {
    rows: entries.map((entry) => rowOf(entry, entry.user_id === me?.user_id)),
    own: me && rowOf(me, true),
    place: me ? place(me.rank, total) : '',
  };
}

/** label writes the title of the page in front and the tabs in the language of the phone. */
function label(title) {
  wx.setNavigationBarTitle({ title });
  [words.today, words.history, words.me].forEach((text, index) =>
    wx.setTabBarItem({ index, text }),
  );
}

const say = (title) => wx.showToast({ title, icon: 'none' });

/** attempt does what the user has asked for, and says so if that fails. It returns whether it was done. */
async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    say(problem(error));
    return false;
  }
}

/** card returns a card that invites by a code: to be friends (kind friend), or to a group (group). */
const card = (title, kind, code) => ({
  title,
  path: code ? `/pages/today/today?${kind}=${code}` : '/pages/today/today',
});

module.exports = { attempt, card, formatted, label, rankingOf, say };
