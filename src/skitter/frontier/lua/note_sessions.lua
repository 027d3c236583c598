--[[
note_sessions: store what was learned about sessions without the end of a lease: by a request that
has none, or before links that need it are sent ahead of their page.

FLAGS  allow-oom
EACH   news     bytes  model.SessionNews as msgpack
REPLY  int    how many were stored
COST   O(fields)
]]
--@include once feedback
for at = EACH.start, #ARGV do learn_session(cmsgpack.unpack(ARGV[at])) end
return remember(#ARGV - EACH.start + 1)
