package app

import (
	"context"
	"crypto/ecdh"

	"stepboard/models"
	"stepboard/services/people/privacy"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/passed"
	"stepboard/services/rankings/ranking"
	"stepboard/services/rankings/stream"
)

// rankings holds the services that read boards for people.
type rankings struct {
	NearCache    ranking.NearCache // nil unless rankings.max_staleness is set
	Ranking      *ranking.Service
	Likes        *likes.Service
	Streams      *stream.Service
	Competitions *competitions.Service
	Notices      *notices.Service

	digests *digests.Service
	passed  *passed.Service
	states  passed.States
	passing *passed.Feed
	render  passed.Render
	pushKey *ecdh.PrivateKey // nil without Web Push
}

// newRankings constructs the services of rankings. tell is called when a day of a final competition has changed.
func newRankings(
	ctx context.Context, o Options, p platform, who people, scores boards, tell func(context.Context, models.Competition) error,
) (w rankings, err error) {
	given := likes.NewStore(o.Stores.Friends.Gorm, p.outbox)
	w.NearCache = p.backing.near()
	w.Ranking = ranking.New(ranking.Options{
		Catalog: scores.Catalog, Entries: scores.Entries, Archive: scores.Archive, Friends: who.Friends, Groups: who.Groups,
		Privacy: who.Privacy, Directory: who.Directory, Cursors: p.cursors, Likes: given, NearCache: w.NearCache,
		Corrections: scores.Corrections, Holds: scores.Holds, Clock: o.Clock,
		Rules: scores.rules, Whole: p.backing.whole, HistoryDays: o.Config.Friends.HistoryDays,
	})
	w.Likes = likes.New(likes.Options{
		Store: given, Rankings: w.Ranking, Catalog: scores.Catalog, Directory: who.Directory, Cursors: p.cursors, Clock: o.Clock,
	})
	w.digests = digests.New(digests.Options{
		Store: digests.NewStore(o.Stores.Jobs.Gorm, p.outbox), Catalog: scores.Catalog, Rankings: w.Ranking,
		Likes: likes.NewStore(o.Stores.Jobs.Gorm, nil), Clock: o.Clock, Log: o.Log,
	})
	if err := w.buildPassed(ctx, o, p, who, scores); err != nil {
		return w, err
	}
	w.Competitions = competitions.New(competitions.Options{
		Calls:   competitions.Data{Store: competitions.NewStore(o.Stores.Gorm, nil), Definitions: who.Teams},
		Jobs:    competitions.Data{Store: competitions.NewStore(o.Stores.Jobs.Gorm, p.outbox), Definitions: who.jobTeams},
		Catalog: scores.Catalog, Entries: scores.Entries, Archive: scores.Archive, Rules: scores.rules,
		Privacy: who.Privacy, Directory: who.Directory, Cursors: p.cursors, RetainMonths: o.Config.Archive.RetainMonths,
		Memory: int64(o.Config.Rankings.Memory) / 8, Clock: o.Clock, Log: o.Log, Tell: tell,
	})
	limits := o.StreamLimits
	limits.PerAddress = o.Config.Limits.StreamsPerAddress
	w.Streams = stream.New(w.Ranking, w.passing, limits)
	p.registry.MustRegister(newRankingCollector(w.Ranking, p.backing.hot(), w.Streams))
	p.registerJobs(o, newRankingJobsCollector(w.digests, w.Competitions, w.passed, o.Clock))
	return w, nil
}

// buildPassed constructs the services of what users want to be told of, and of who has passed whom. Without
// push.subject there is no Web Push.
func (w *rankings) buildPassed(ctx context.Context, o Options, p platform, who people, scores boards) (err error) {
	stored := notices.NewStore(o.Stores.Gorm)
	if pushes(o.Config) {
		if w.pushKey, err = stored.Key(ctx); err != nil {
			return models.Unavailable("read the key of Web Push", err)
		}
	}
	w.Notices = notices.New(notices.Options{
		Store: stored, Directory: who.Directory, PrivateNetwork: o.Config.Push.PrivateNetwork, Clock: o.Clock, Key: w.pushKey,
	})
	w.render = passed.NewRender(who.Directory, privacy.NewStore(o.Stores.Jobs.Gorm), o.Clock)
	w.states, w.passing = p.backing.passed(who.Directory, w.render)
	w.passed = passed.New(passed.Options{
		Wanting: notices.NewStore(o.Stores.Jobs.Gorm), States: w.states, Catalog: scores.Catalog, Rankings: w.Ranking,
		Store: passed.NewStore(o.Stores.Jobs.Gorm, p.outbox), Feed: w.passing, Clock: o.Clock, Log: o.Log,
	})
	return nil
}
