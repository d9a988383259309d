const { board, client } = require('../../service.js');
const { dayOf, problem, words } = require('../../texts.js');
const { attempt, formatted, label, rankingOf } = require('../../view.js');

Page({
  data: {
    t: words,
    problem: '',
    loaded: false,
    days: [],
    opened: '', // the day whose ranking among friends is shown
    rows: [],
    place: '',
  },

  onLoad() {
    label(words.history);
  },

  onShow() {
    return this.load();
  },

  async load() {
    try {
      const { entries } = await client.call('GET', '/v1/boards/{board}/history', {
        path: { board },
      });
      const most = Math.max(1, ...entries.map(({ score }) => score));
      const days = entries.map(({ date, score }) => ({
        date,
        name: dayOf(date),
        score: formatted(score),
        percent: Math.round((100 * score) / most),
      }));
      this.setData({ days, loaded: true, problem: '' });
    } catch (error) {
      this.setData({ problem: problem(error) });
    }
  },

  async open({ currentTarget }) {
    const { date } = currentTarget.dataset;
    if (date === this.data.opened) {
      this.setData({ opened: '' });
      return;
    }
    await attempt(async () => {
      const query = { date, limit: 200 };
      const ranking = await client.call('GET', '/v1/boards/{board}/friends', {
        path: { board },
        query,
      });
      const { rows, place } = rankingOf(ranking);
      this.setData({ opened: date, rows, place });
    });
  },
});
