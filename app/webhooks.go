package app

import (
	"context"

	"stepboard/config"
	"stepboard/models"
	"stepboard/services/boards/results"
	"stepboard/services/people/friends"
	"stepboard/services/people/privacy"
	"stepboard/services/platform/outcomes"
	"stepboard/services/rankings/digests"
	"stepboard/services/rankings/likes"
	"stepboard/services/rankings/notices"
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

// buildNotices constructs the service of what users want to be told of. Without push.subject there is
// no Web Push.
func (a *App) buildNotices(ctx context.Context, o Options) error {
	options := notices.Options{
		Store: notices.NewStore(o.Stores.Gorm), Directory: a.Directory, PrivateNetwork: o.Config.Push.PrivateNetwork, Clock: o.Clock,
	}
	if o.Config.Push.Subject != "" {
		key, err := options.Store.Key(ctx)
		if err != nil {
			return models.Unavailable("read the key of Web Push", err)
		}
		options.Key = key
	}
	a.Notices = notices.New(options)
	return nil
}

// buildWebhooks constructs the services that deliver outcomes. Processes with the role of
// jobs deliver, if there is a target.
func (a *App) buildWebhooks(o Options) (err error) {
	choices := privacy.NewStore(o.Stores.Jobs.Gorm)
	a.webhooks = outcomes.NewStore(o.Stores.Jobs.Gorm, append(friends.Topics(a.Directory),
		likes.Topic(a.Directory, choices), results.Topic(a.Directory), digests.Topic(a.Directory, choices))...)
	a.Deliveries = outcomes.NewDeliveries(a.webhooks, o.Clock)
	targets := webhookTargets(o.Config)
	a.deliver = o.Roles.Jobs && len(targets) > 0
	a.deliverer, err = outcomes.NewDeliverer(a.webhooks, targets, o.Clock, o.Log, a.registry)
	return err
}
