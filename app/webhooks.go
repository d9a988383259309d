package app

import (
	"context"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/competitions"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
	"stepboard/services/rankings/passed"
)

// webhookTargets returns the targets of the settings.
func webhookTargets(c config.Config) []outcomes.Target {
	targets := make([]outcomes.Target, len(c.Webhooks))
	for i, w := range c.Webhooks {
		targets[i] = outcomes.Target{URL: w.URL, Secrets: w.Secrets, PrivateNetwork: w.PrivateNetwork}
		for _, event := range w.Events {
			targets[i].Types = append(targets[i].Types, models.OutcomeType(event))
		}
	}
	return targets
}

// pushes reports whether the settings have Web Push.
func pushes(c config.Config) bool { return c.Push.Subject != "" }

// newOutbox returns the outbox of the settings.
func newOutbox(o Options) *outcomes.Outbox {
	outbox := outcomes.NewOutbox(webhookTargets(o.Config), o.Clock)
	if pushes(o.Config) {
		return outbox.WithPush()
	}
	return outbox
}

// buildNotices constructs the service of what users want to be told of. Without push.subject there is
// no Web Push.
func (a *App) buildNotices(ctx context.Context, o Options) error {
	options := notices.Options{
		Store: notices.NewStore(o.Stores.Gorm), Directory: a.Directory, PrivateNetwork: o.Config.Push.PrivateNetwork, Clock: o.Clock,
	}
	if pushes(o.Config) {
		var err error
		if options.Key, err = options.Store.Key(ctx); err != nil {
			return models.Unavailable("read the key of Web Push", err)
		}
		a.push = &outcomes.Push{
			Subject: o.Config.Push.Subject, Key: options.Key, PrivateNetwork: o.Config.Push.PrivateNetwork,
			Subscriptions: notices.NewStore(o.Stores.Jobs.Gorm),
		}
	}
	a.Notices = notices.New(options)
	return nil
}

// buildWebhooks constructs the services that deliver outcomes, by webhooks and Web Push. Processes with
// the role of jobs deliver, if there is a target.
func (a *App) buildWebhooks(o Options) (err error) {
	choices := privacy.NewStore(o.Stores.Jobs.Gorm)
	render := passed.NewRender(a.Directory, choices, o.Clock)
	a.states, a.passing = a.backing.passed(a.Directory, render)
	a.webhooks = outcomes.NewStore(o.Stores.Jobs.Gorm, append(friends.Topics(a.Directory, friends.NewStore(o.Stores.Jobs.Gorm, nil)),
		likes.Topic(a.Directory, choices), results.Topic(a.Directory), digests.Topic(a.Directory, choices), passed.Topic(render), competitions.Topic(a.Directory))...)
	a.Deliveries = outcomes.NewDeliveries(a.webhooks, o.Clock)
	targets := webhookTargets(o.Config)
	a.deliver = o.Roles.Jobs && (len(targets) > 0 || a.push != nil)
	a.deliverer, err = outcomes.NewDeliverer(a.webhooks, targets, a.push, o.Clock, o.Log, a.registry)
	return err
}
