package conformance

func tlsCases() []Case { return nil }
