package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"stepboard/services/boards/corrections"
)

// newCorrectionsCollector reports the corrections that this process knows, and what it has
// done for them.
func newCorrectionsCollector(s *corrections.Service) prometheus.Collector {
	type service = *corrections.Service
	return newCollector("stepboard_corrections_", func() service { return s },
		figure[service]{
			"held", "Corrections that hold and concern buckets in Redis.", gauge,
			func(s service) float64 { return float64(s.Held()) }, nil,
		},
		figure[service]{
			"changed_total", "Entries of boards that the job has changed because they did not agree with the corrections.", counter,
			func(s service) float64 { return float64(s.Stats().Corrected.Load()) }, nil,
		},
		figure[service]{
			"pending_buckets", "Archived buckets that have to be ranked anew because of corrections.", gauge,
			func(s service) float64 { return float64(s.Stats().Pending.Load()) }, nil,
		},
	)
}
