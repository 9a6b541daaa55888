package bench

// Figure is one measurement.
type Figure = figure

// Read takes a line that a command printed.
func (f *Figure) Read(line string) error { return f.read([]byte(line)) }

// Metrics reads the output of a benchmark.
func Metrics(out string) (map[string]float64, error) { return metrics([]byte(out)) }

// Page is the document of figures.
func Page(all []Figure) string { return page(all) }

// Judge is the median ratio of a value of ours to one of a peer, under one label.
func Judge(all []Figure, label, sys, value, peer, peerValue string, least bool, bound float64) (middle float64, repetitions int, reached bool) {
	v := goal{ours: ref{label, sys, value}, least: least, bound: bound, beside: ref{label, peer, peerValue}}.judge(all)
	return v.median(), len(v.each), v.reached()
}

// Unmeasured are the systems that a goal speaks of and no part measures.
func Unmeasured() (out []string) {
	measured := map[string]bool{"": true}
	for _, part := range parts() {
		for _, group := range groups(part) {
			for _, s := range group {
				measured[s.label+s.sys] = true
			}
		}
	}
	for _, g := range goals() {
		for _, r := range []ref{g.ours, g.beside} {
			if !measured[r.label+r.sys] {
				out = append(out, r.label+" "+r.sys)
			}
		}
	}
	return out
}
