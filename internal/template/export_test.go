package template

// Forget empties the cache of open versions.
func (s *Service) Forget() {
	s.opened.mu.Lock()
	defer s.opened.mu.Unlock()
	s.opened.byID, s.opened.size = nil, 0
	s.opened.order.Init()
}
