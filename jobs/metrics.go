package jobs

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the jobs do.
type metrics struct {
	succeeded *prometheus.GaugeVec
	duration  *prometheus.HistogramVec
	rows      *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	labels := []string{"job"}
	m := &metrics{
		succeeded: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "stepboard_job_last_success_timestamp_seconds",
			Help: "When the job last succeeded on this replica, 0 for never; the latest of all replicas counts.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "stepboard_job_duration_seconds",
			Help:    "Time that a run of the job took, failed ones included.",
			Buckets: []float64{.001, .01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600},
		}, labels),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_job_rows_total",
			Help: "Rows that the job has worked on, in failed runs too.",
		}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stepboard_job_failures_total",
			Help: "Runs of the job that failed; those cut off by the service's end don't count.",
		}, labels),
	}
	registry.MustRegister(m.succeeded, m.duration, m.rows, m.failures)
	return m
}

// initialize shows a job before its first run: an alert on what is absent, or
// on the first increase, needs the zero.
func (m *metrics) initialize(job string) {
	m.succeeded.WithLabelValues(job)
	m.duration.WithLabelValues(job)
	m.rows.WithLabelValues(job)
	m.failures.WithLabelValues(job)
}
