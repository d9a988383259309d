App({
  // What a shared card has brought: { kind: 'friend' or 'group', code }, until a page has dealt with it.
  invitation: null,

  // Also when a card is opened while the program runs. Coming back brings the same query again.
  onShow({ query }) {
    const kind = query.friend ? 'friend' : 'group';
    const code = query[kind];
    if (!code || code === this.lastCode) return;
    this.lastCode = code;
    this.invitation = { kind, code };
  },
});
