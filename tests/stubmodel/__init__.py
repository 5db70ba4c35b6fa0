"""A stub model server on loopback: answers four model protocols by rules, so that real agents work without a model.

``cd tests && python -m stubmodel --script FILE | --rules FILE [--port N] [--ready FILE] [--log FILE]``

* ``--script``: a scripted agent's file (AGT-011): each entry's steps become shell tool calls, then ``say``.
* ``--rules``: a YAML list, first match wins: ``{prompt_has, calls: [SHELL COMMAND | {name, arguments}], say, status,
  message, hang}``; ``status`` answers with an HTTP error instead of the final text, ``hang`` never answers.
* ``--ready``: the file that gets the base address once the server listens; ``--log``: requests as JSON lines.

Protocols: ``/v1/chat/completions``, ``/v1/responses``, ``/v1/messages``, ``/v1beta/models/M:generateContent`` (and
``:streamGenerateContent``). Base addresses: OpenAI clients ``…/v1``; Anthropic and Gemini clients the bare address.
"""
