package app

import (
	"stepboard/config"
	"stepboard/models"
	"stepboard/services/platform/outcomes"
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

// buildWebhooks constructs the services that deliver outcomes. Processes with the role of
// jobs deliver, if there is a target.
func (a *App) buildWebhooks(o Options) (err error) {
	targets, store := webhookTargets(o.Config), outcomes.NewStore(o.Stores.Jobs.Gorm)
	a.Deliveries = outcomes.NewDeliveries(store, o.Clock)
	a.deliver = o.Roles.Jobs && len(targets) > 0
	a.deliverer, err = outcomes.NewDeliverer(store, targets, a.Directory, o.Clock, o.Log, a.registry)
	return err
}
