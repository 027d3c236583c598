--[[
feedback: what an attempt learned besides its result: model.Feedback as msgpack, or empty. Each kind
has a field there and a line here.
]]
--@include block put_off adapt pages learn_session yield rendering revisit archived
local function learn(claim, packed)
  if packed == '' then return end
  local said = cmsgpack.unpack(packed)
  if said.left_ms then put_off(claim.host, math.min(said.left_ms, now_ms + 1)) end
  if said.rest_ms then block(claim.host, said.rest_ms) end
  if said.latency_ms or said.incident then learn_delay(claim, said) end
  if said.rendering then learn_rendering(said.rendering) end
  if said.page then learn_page(claim, said.page) end
  if said.session then learn_session(said.session) end
  if said.yields then learn_yield(claim, said) end
  if said.archived then redis.call('SADD', archived, said.archived) end
  if said.revisit then learn_revisit(claim, said.revisit) end
end
